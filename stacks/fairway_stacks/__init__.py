"""The stacks of an environment: network, data and compute."""
