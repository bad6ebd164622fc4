"""Runs: their folders, and everything read, copied and reported from them."""
