"""Which random values a parameter takes: the distributions and their parameters.

Names and order of the parameters are those of Python's module `random`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, FiniteFloat

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.axes import ParamValues  # noqa: TC001 - pydantic reads it
from fairway_runner.jobs.sweep.one_key import OneKey

_Rule = Callable[[dict[str, Any]], None]

# `random()` has 53 random bits, so that a whole number is drawn from at most as many.
_WIDEST = 2**53


def _parameters(*names: str, rule: _Rule) -> AfterValidator:
    """Checks that there is a number for each name, and what the rule says about them."""

    def check(values: list[Any]) -> list[Any]:
        if len(values) != len(names):
            wanted = f"[{', '.join(names)}]"
            message = f"expected {wanted}, found a list of {len(values)}"
            raise FieldError(message, f"write the numbers as {wanted}")
        rule(dict(zip(names, values, strict=True)))
        return values

    return AfterValidator(check)


def _above_zero(*names: str) -> _Rule:
    def rule(values: dict[str, Any]) -> None:
        for position, (name, value) in enumerate(values.items()):
            if name in names and value <= 0:
                raise FieldError(
                    f"{name} is {value}: it must be above 0", "for example 0.1", (position,)
                )

    return rule


def _in_order(*names: str) -> _Rule:
    def rule(values: dict[str, Any]) -> None:
        for lower, upper in pairwise(names):
            if values[lower] > values[upper]:
                message = f"{lower} is {values[lower]}, above {upper}, which is {values[upper]}"
                raise FieldError(message, f"the order is [{', '.join(values)}]")

    return rule


def _both(first: _Rule, second: _Rule) -> _Rule:
    def rule(values: dict[str, Any]) -> None:
        first(values)
        second(values)

    return rule


def _is_filled(values: dict[str, Any]) -> None:
    start, stop = values["start"], values["stop"]
    if start >= stop:
        message = f"there is no whole number from {start} up to but not {stop}"
        raise FieldError(message, "stop must be above start; it is never drawn itself")
    if stop - start > _WIDEST:
        raise FieldError("start and stop are more than 2^53 apart", "use uniform")


_Numbers = list[FiniteFloat]
_Integer = Annotated[list[int], _parameters("start", "stop", rule=_is_filled)]
_Bounds = Annotated[_Numbers, _parameters("low", "high", rule=_in_order("low", "high"))]
_PositiveBounds = Annotated[
    _Numbers,
    _parameters("low", "high", rule=_both(_above_zero("low"), _in_order("low", "high"))),
]
_Triangle = Annotated[
    _Numbers, _parameters("low", "high", "mode", rule=_in_order("low", "mode", "high"))
]
_AlphaBeta = Annotated[_Numbers, _parameters("alpha", "beta", rule=_above_zero("alpha", "beta"))]
_Lambda = Annotated[_Numbers, _parameters("lambda", rule=_above_zero("lambda"))]
_MuSigma = Annotated[_Numbers, _parameters("mu", "sigma", rule=_above_zero("sigma"))]
_Alpha = Annotated[_Numbers, _parameters("alpha", rule=_above_zero("alpha"))]


class Distribution(OneKey):
    """One distribution by its name, with its parameters in a list: `uniform: [0, 1]`."""

    noun: ClassVar[str] = "a distribution"

    integer: _Integer | None = None
    """`[start, stop]`: a whole number from `start` up to but not `stop`, all equally likely."""
    uniform: _Bounds | None = None
    """`[low, high]`: a number between them, all equally likely."""
    loguniform: _PositiveBounds | None = None
    """`[low, high]`: every order of magnitude equally likely, as for learning rates; both > 0."""
    triangular: _Triangle | None = None
    """`[low, high, mode]`: most often near `mode`."""
    beta: _AlphaBeta | None = None
    """`[alpha, beta]`: from 0 to 1; both above 0."""
    gamma: _AlphaBeta | None = None
    """`[alpha, beta]`: `alpha` is the shape and `beta` the scale."""
    weibull: _AlphaBeta | None = None
    """`[alpha, beta]`: `alpha` is the scale and `beta` the shape."""
    exponential: _Lambda | None = None
    """`[lambda]`: 1 divided by the mean."""
    gauss: _MuSigma | None = None
    """`[mu, sigma]`: the mean and the standard deviation."""
    lognormal: _MuSigma | None = None
    """`[mu, sigma]`: the mean and the standard deviation of the value's natural logarithm."""
    pareto: _Alpha | None = None
    """`[alpha]`: the shape; values from 1."""
    choice: ParamValues | None = None
    """`[value, …]`: one of the values, all equally likely."""
