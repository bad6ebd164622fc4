"""Nodes of a pool, by servers of the task's own."""
