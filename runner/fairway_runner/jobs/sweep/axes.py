"""The values that one parameter runs through: a list, or `{start, stop, step}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Discriminator, FiniteFloat, Tag, model_validator

from fairway_core.documents import FieldError, Model
from fairway_runner.jobs.params import ParamValue, Scalar

T = TypeVar("T")

MOST_POINTS = 100_000
"""More points than this are taken for a mistake; so is a longer list of values."""


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

    @model_validator(mode="after")
    def _has_values(self) -> Range:
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
        return self

    @property
    def count(self) -> int:
        """The number of values."""
        start, stop, step = map(_exact, (self.start, self.stop, self.step))
        return max(0, -((start - stop) // step))

    @cached_property
    def values(self) -> list[float]:
        """The values, the first of them `start`."""
        start, step = _exact(self.start), _exact(self.step)
        if all(isinstance(each, int) for each in (self.start, self.stop, self.step)):
            return [self.start + index * self.step for index in range(self.count)]
        # Over one denominator, Python's division of whole numbers is exact to the last bit.
        below = start.denominator * step.denominator
        first = start.numerator * step.denominator
        each = step.numerator * start.denominator
        return [(first + index * each) / below for index in range(self.count)]


def _exact(number: float) -> Fraction:
    """The number as it is written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _filled(values: list[Any]) -> list[Any]:
    if not values:
        raise FieldError("the list is empty", "give it at least one value")
    if len(values) > MOST_POINTS:
        raise FieldError(f"the list has more than {MOST_POINTS:,} values", "split the sweep")
    return values


def _shape(value: Any) -> str | None:
    if isinstance(value, list):
        return "as a list"
    return "as a range" if isinstance(value, Mapping | Range) else None


_BY_SHAPE = Discriminator(
    _shape,
    custom_error_type="axis",
    custom_error_message="a list of values or {start, stop, step}",
)

ParamValues = Annotated[list[ParamValue], AfterValidator(_filled)]
Scalars = Annotated[list[Scalar], AfterValidator(_filled)]

Axis = Annotated[
    Annotated[ParamValues, Tag("as a list")] | Annotated[Range, Tag("as a range")], _BY_SHAPE
]
"""A parameter's values."""

ScalarAxis = Annotated[
    Annotated[Scalars, Tag("as a list")] | Annotated[Range, Tag("as a range")], _BY_SHAPE
]
"""Values that lists are made of."""


def values_of(axis: Sequence[T] | Range) -> Sequence[T | float]:
    """The values in their order; there is at least one."""
    return axis.values if isinstance(axis, Range) else axis


def length_of(axis: Sequence[Any] | Range) -> int:
    """How many values there are."""
    return axis.count if isinstance(axis, Range) else len(axis)
