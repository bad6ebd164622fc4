"""Decisions of the service: which task runs where, and what follows when it has ended."""
