"""Requests from the runner to the program that synthesizes environments."""
