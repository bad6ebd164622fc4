"""The program `fairway`: its commands, and their output."""
