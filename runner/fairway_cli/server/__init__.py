"""Runs of a `fairway serve` elsewhere, by its REST interface."""
