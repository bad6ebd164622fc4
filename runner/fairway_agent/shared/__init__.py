"""Runs that lie in the folder that all nodes of a cluster see."""
