"""Runs on a plain cluster, whose nodes are reached by ssh."""
