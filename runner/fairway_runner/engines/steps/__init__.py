"""Runs of several steps, each of which is a run of its own on its own target."""
