"""Values of one parameter of a sweep: a list, a range, or draws from a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, Discriminator, FiniteFloat, GetCoreSchemaHandler, Tag
from pydantic_core import core_schema

from fairway_agent.quick import dataclass
from fairway_core.documents import FieldError, Model, rule
from fairway_runner.jobs.job_fields import ParamValue, Scalar

T = TypeVar("T")

MOST_POINTS = 100_000
"""Maximum number of points, and of a list's values: more is taken for a mistake."""


class Range(Model):
    """`start`, `start + step`, … up to but not including `stop`.

    Values are computed as `start + index × step` in decimal arithmetic, so errors do not add up.
    They are whole numbers if `start`, `stop` and `step` are.

    >>> Range(start=0.5, stop=0.8, step=0.1).values
    [0.5, 0.6, 0.7]
    """

    start: int | FiniteFloat
    """The first value."""
    stop: int | FiniteFloat
    """The end of the values, not included."""
    step: int | FiniteFloat
    """The distance from one value to the next."""

    @rule
    def _has_values(self) -> None:
        for name in ("start", "stop", "step"):
            try:
                float(getattr(self, name))
            except OverflowError:
                hint = "use a number below 1e308"
                raise FieldError("the number is too large", hint, (name,)) from None
        if self.step == 0:
            raise FieldError("a step must not be 0", "use a step above or below 0", ("step",))
        if self.count < 1:
            way = "below" if self.step > 0 else "above"
            message = f"no value lies between {self.start} and {self.stop} in steps of {self.step}"
            raise FieldError(message, f"`start` must be {way} `stop`, which is not one of them")
        if self.count > MOST_POINTS:
            message = f"more than {MOST_POINTS:,} values lie between start and stop"
            raise FieldError(message, "use a larger step", ("step",))

    @property
    def count(self) -> int:
        start, stop, step = map(_exact, (self.start, self.stop, self.step))
        return max(0, -((start - stop) // step))

    @cached_property
    def values(self) -> list[float]:
        """Values, the first of them `start`."""
        start, step = _exact(self.start), _exact(self.step)
        if all(isinstance(each, int) for each in (self.start, self.stop, self.step)):
            return [self.start + index * self.step for index in range(self.count)]
        # With a common denominator, Python's integer division is exact to the last bit.
        below = start.denominator * step.denominator
        first = start.numerator * step.denominator
        each = step.numerator * start.denominator
        return [(first + index * each) / below for index in range(self.count)]


def _exact(number: float) -> Fraction:
    """Returns the number as it is written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _filled(values: list[Any]) -> list[Any]:
    if not values:
        raise FieldError("the list is empty", "give it at least one value")
    if len(values) > MOST_POINTS:
        raise FieldError(f"the list has more than {MOST_POINTS:,} values", "split the sweep")
    return values


def shape_discriminator(plain: type, expected: str) -> Discriminator:
    """Returns a discriminator between a value of the type `plain`, tagged "as it is", and a model,
    tagged "as a mapping"; an error for anything else says what was `expected`."""

    def shape(value: Any) -> str | None:
        if isinstance(value, plain):
            return "as it is"
        return "as a mapping" if isinstance(value, Mapping | Model) else None

    return Discriminator(shape, custom_error_type="shape", custom_error_message=expected)


_BY_SHAPE = shape_discriminator(list, "a list of values or {start, stop, step}")

ParamValues = Annotated[list[ParamValue], AfterValidator(_filled)]
Scalars = Annotated[list[Scalar], AfterValidator(_filled)]

_AsRange = Annotated[Range, Tag("as a mapping")]
Axis = Annotated[Annotated[ParamValues, Tag("as it is")] | _AsRange, _BY_SHAPE]
"""Values of a parameter."""

ScalarAxis = Annotated[Annotated[Scalars, Tag("as it is")] | _AsRange, _BY_SHAPE]
"""Values for lists to be made of."""


def values_of(axis: Sequence[T] | Range) -> Sequence[T | float]:
    """Returns the values in order; there is at least one."""
    return axis.values if isinstance(axis, Range) else axis


def length_of(axis: Sequence[Any] | Range) -> int:
    """Returns how many values a parameter has."""
    return axis.count if isinstance(axis, Range) else len(axis)


class OneKey(Model):
    """Base of models of which exactly one field is set.

    >>> class Shape(OneKey):
    ...     noun = "a shape"
    ...     circle: float | None = None
    >>> Shape(circle=2).key, Shape(circle=2).value
    ('circle', 2.0)
    """

    noun: ClassVar[str]

    @rule
    def _has_one_key(self) -> None:
        found = [name for name in type(self).model_fields if name in self.model_fields_set]
        known = ", ".join(type(self).model_fields)
        if not found:
            raise FieldError(f"{self.noun} has one key, this has none", f"one of: {known}")
        if len(found) > 1:
            listed = " and ".join(f"`{name}`" for name in found)
            message = f"{self.noun} has one key, this has {listed}"
            raise FieldError(message, "keep one of them", (found[1],))
        if getattr(self, found[0]) is None:
            message = f"`{found[0]}` has no value"
            raise FieldError(message, "give it a value or remove the key", (found[0],))

    @property
    def key(self) -> str:
        return next(iter(self.model_fields_set))

    @property
    def value(self) -> Any:
        return getattr(self, self.key)


@dataclass(frozen=True)
class Called:
    """Annotation of a model that says what was expected if there is no mapping.

    >>> Annotated[Shape, Called("a shape such as {circle: 2}")]  # doctest: +SKIP
    """

    words: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Returns a union of the one model, because a union lets the error be worded."""

        def shape(value: Any) -> str | None:
            return self.words if isinstance(value, Mapping | Model) else None

        return core_schema.tagged_union_schema(
            {self.words: handler(source)},
            discriminator=shape,
            custom_error_type="shape",
            custom_error_message=self.words,
        )


def _parameters(
    *names: str, optional: str = "", above_zero: Sequence[str] = (), order: Sequence[str] = ()
) -> AfterValidator:
    """Returns a validator that checks that there is a number for each name, and maybe one for
    the `optional` one, that those `above_zero` are, and that those of the `order` are ascending."""
    longer = (*names, optional)

    def check(values: list[Any]) -> list[Any]:
        given = dict(zip(longer, values, strict=False))
        if len(values) != len(names) and not (optional and len(values) == len(longer)):
            wanted = f"[{', '.join(names)}]"
            message = f"expected {wanted}, found a list of {len(values)}"
            raise FieldError(message, f"write the numbers as {wanted}")
        for position, (name, value) in enumerate(given.items()):
            if name in above_zero and value <= 0:
                message = f"{name} is {value}: it must be above 0"
                example = 1 if isinstance(value, int) else 0.1
                raise FieldError(message, f"for example {example}", (position,))
        for lower, upper in pairwise(order):
            if given[lower] > given[upper]:
                message = f"{lower} is {given[lower]}, above {upper}, which is {given[upper]}"
                raise FieldError(message, f"the order is [{', '.join(names)}]")
        return values

    return AfterValidator(check)


def _has_an_integer(values: list[int]) -> list[int]:
    start, stop = values[:2]
    if start >= stop:
        message = f"there is no whole number from {start} up to but not {stop}"
        raise FieldError(message, "stop must be above start; it is never drawn itself")
    return values


_Numbers = list[FiniteFloat]
_Integer = Annotated[
    list[int],
    _parameters("start", "stop", optional="step", above_zero=("step",)),
    AfterValidator(_has_an_integer),
]
_Bounds = Annotated[_Numbers, _parameters("low", "high", order=("low", "high"))]
_PositiveBounds = Annotated[
    _Numbers, _parameters("low", "high", above_zero=("low",), order=("low", "high"))
]
_Triangle = Annotated[_Numbers, _parameters("low", "high", "mode", order=("low", "mode", "high"))]
_AlphaBeta = Annotated[_Numbers, _parameters("alpha", "beta", above_zero=("alpha", "beta"))]
_Lambda = Annotated[_Numbers, _parameters("lambda", above_zero=("lambda",))]
_MuSigma = Annotated[_Numbers, _parameters("mu", "sigma", above_zero=("sigma",))]
_Alpha = Annotated[_Numbers, _parameters("alpha", above_zero=("alpha",))]


class Distribution(OneKey):
    """One distribution by its name, with its parameters in a list: `uniform: [0, 1]`."""

    noun: ClassVar[str] = "a distribution"

    integer: _Integer | None = None
    """`[start, stop]`: a whole number from `start` up to but not `stop`, all equally likely; of
    `[start, stop, step]` one of `start`, `start + step` and so on."""
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
        """Yields values without end, from the stream of that seed and parameter name; another
        version of Python may draw others. Numbers have 12 significant digits. Raises FieldError if
        a value is too large for a number."""
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
            rounded = float(f"{value:.12g}") + 0.0  # turns -0.0 into 0.0
            if key in ("uniform", "loguniform", "triangular"):
                rounded = min(max(rounded, values[0]), values[1])
            yield rounded


_DRAWS: dict[str, Callable[..., Any]] = {
    "integer": Random.randrange,
    "uniform": Random.uniform,
    "loguniform": lambda source, low, high: math.exp(source.uniform(math.log(low), math.log(high))),
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
