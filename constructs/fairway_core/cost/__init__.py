"""Costs of an environment: its parts, the prices of Azure's meters, and their sum.

A part without a known price is reported as unknown and is not included in sums.
"""
