"""The program `fairway`: its commands, and what they print."""
