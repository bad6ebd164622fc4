"""Constructs of clusters: a module or folder for each engine, named as in the environment."""
