"""Which random values a parameter takes: the distributions, their parameters, and draws from them.

Names and order of the parameters are those of Python's module `random`, whose methods draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, FiniteFloat

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.axes import ParamValues  # noqa: TC001 - pydantic reads it
from fairway_runner.jobs.sweep.one_key import OneKey

if TYPE_CHECKING:
    from fairway_runner.jobs.params import ParamValue

_Rule = Callable[[dict[str, Any]], None]


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

    def draws(self, seed: int, name: str) -> Iterator[ParamValue]:
        """Values without end, from the stream of that seed and parameter name; another version of
        Python may draw others. Numbers have 12 significant digits.

        Raises FieldError where a value is too large for a number.
        """
        source, key, values = Random(f"{seed} {name}"), self.key, self.value  # noqa: S311
        draw = _DRAWS[key]
        while True:
            try:
                value = draw(source, *values)
                if not isinstance(value, float) or key == "choice":
                    yield value
                    continue
                if not math.isfinite(value):
                    raise OverflowError
            except (OverflowError, ZeroDivisionError):
                message = f"a value of {{{key}: {values}}} is too large for a number"
                raise FieldError(message, "use parameters that are less extreme", (key,)) from None
            rounded = float(f"{value:.12g}") + 0.0  # which makes 0.0 of -0.0
            if key in ("uniform", "loguniform", "triangular"):
                rounded = min(max(rounded, values[0]), values[1])
            yield rounded


def _loguniform(source: Random, low: float, high: float) -> float:
    return math.exp(source.uniform(math.log(low), math.log(high)))


_DRAWS: dict[str, Callable[..., Any]] = {
    "integer": Random.randrange,
    "uniform": Random.uniform,
    "loguniform": _loguniform,
    "triangular": Random.triangular,
    "beta": Random.betavariate,
    "gamma": Random.gammavariate,
    "weibull": Random.weibullvariate,
    "exponential": Random.expovariate,
    "gauss": Random.gauss,
    "lognormal": Random.lognormvariate,
    "pareto": Random.paretovariate,
    "choice": lambda source, *values: source.choice(values),
}
