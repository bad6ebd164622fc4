"""Facts, specs and rules of Fairway: what the infrastructure and the runner both know."""

__version__ = "0.1.0"
