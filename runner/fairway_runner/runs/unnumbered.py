"""Tasks of other runs that have no number yet, as records of inputs call them."""

BEST = "the best"
"""Of a run that goes on: the one with the best value of a metric."""
EQUAL = "of the same point"
"""Of a run of which each task reads what its equal one keeps."""
