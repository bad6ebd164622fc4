"""Costs of an environment: its parts, the prices of Azure's meters, and their sum.

A part without a known price is reported as unknown and is not included in sums.

>>> from fairway_core.cost.environment import parts_of
>>> from fairway_core.cost.estimate import estimate
>>> from fairway_core.cost.prices import snapshot
>>> estimate(parts_of(environment), snapshot()).known  # doctest: +SKIP
(3, 8)
"""
