"""Clusters in the compute stack: for each engine a module with a class `Clusters`."""
