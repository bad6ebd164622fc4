"""Logarithm and exponential, the same to the last bit on every machine.

Those of C libraries differ in their last bits from one machine to the next. Python's
`decimal` rounds both correctly to any number of digits, as its specification demands.
The other operations on floats, `math.sqrt` among them, are exact by IEEE 754.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal

# Three digits more than a float needs; without traps, overflow is infinity.
_CONTEXT = Context(prec=20, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def log(x: float) -> float:
    """The natural logarithm of x ≥ 0; minus infinity for 0."""
    return float(_CONTEXT.ln(Decimal(x)))


def exp(x: float) -> float:
    """e to the power of x; infinity where that is beyond a float."""
    return float(_CONTEXT.exp(Decimal(x)))
