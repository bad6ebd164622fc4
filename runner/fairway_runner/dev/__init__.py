"""Sessions to work in: runs of the template `dev`, with the code kept in sync and a way in."""

TEMPLATE = "dev"
"""The template of every session."""
