"""Runs in the folder that all nodes of a cluster see."""
