"""Constructs of shared file systems: a module for each kind, named as in the environment."""
