"""Decisions of the service: which task runs on which node, and what follows its end."""
