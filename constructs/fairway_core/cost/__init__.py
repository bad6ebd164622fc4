"""Costs of an environment: its parts, the prices of Azure's meters, and the sum of what is
known."""
