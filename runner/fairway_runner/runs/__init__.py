"""Runs: their folders, and what is read, copied and reported of them."""
