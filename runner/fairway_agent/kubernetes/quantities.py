"""Amounts of resources as Kubernetes writes them: `500m`, `64Gi`, `8`."""

from __future__ import annotations

import re
from fractions import Fraction

_FACTORS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(r"^([+-]?\d*\.?\d+)([eE][+-]?\d+)?([numkMGTPE]i?|Ki)?$")


def parse(text: object) -> Fraction:
    """The amount; ValueError for what is none."""
    match = _FORM.match(str(text).strip())
    if match is None or (match[3] or "") not in _FACTORS:
        raise ValueError(f"{text!r} is not a quantity")
    return Fraction(match[1] + (match[2] or "")) * _FACTORS[match[3] or ""]
