"""Runs of a `fairway serve` elsewhere, through its REST interface."""
