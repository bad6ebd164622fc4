"""Where a job says that it runs: on one target, or on the first of several that has room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import AfterValidator, model_validator

from fairway_core.documents import FieldError, Model, written_as
from fairway_core.target import Name
from fairway_runner.jobs.foreign_keys import STAYS

if TYPE_CHECKING:
    from fairway_core.documents import Document


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise FieldError("this names no target", "name at least one")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FieldError(f"`{name}` is there twice", "name each target once", (index,))
    return names


Names = Annotated[tuple[Name, ...], AfterValidator(_each_once)]


_FIGURE = r"price(/[A-Za-z_][A-Za-z0-9_]*)?"


def _figure(value: str) -> str:
    if not re.fullmatch(_FIGURE, value):
        raise FieldError(f"`{value[:60]}` is not an order", "write `price`, or `price/METRIC`")
    return value


class Where(Model):
    """Several targets. A run goes to the first one that has room when it is submitted."""

    FOREIGN: ClassVar[Mapping[str, str]] = MappingProxyType({"patience": STAYS})

    in_order: Names | None = None
    """Names of targets, in order of preference."""
    cheapest: Names | None = None
    """Names of targets to order by cost, in place of `in_order`."""
    by: Annotated[str, AfterValidator(_figure), written_as(_FIGURE)] | None = None
    """How to order them: by `price`, the price of a node, which is the default; or by
    `price/METRIC`, such as `price/images_per_second`, with the metric of the job's last successful
    run on each.
    """

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.in_order is None) == (self.cheapest is None):
            message = "give either `in_order` or `cheapest`"
            raise FieldError(message, "write {in_order: [FIRST, SECOND]}")
        if self.by is not None and self.cheapest is None:
            raise FieldError("`by` has no effect with `in_order`", "leave it out", ("by",))
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All of the targets, as they are written."""
        return self.in_order or self.cheapest or ()

    @property
    def metric(self) -> str:
        """The metric by which the price is divided; "" for the price alone."""
        return (self.by or "").partition("/")[2]


Targets = Name | Names | Where


class _Placed(Model):
    """The one field of a job that says where it runs."""

    target: Targets | None = None


def where_of(document: Document) -> Where | None:
    """What a job says of where it runs, None where it does not; UserError with the line of what is
    wrong in it. Nothing else of the job is looked at."""
    data = document.data
    if not isinstance(data, dict) or "target" not in data:
        return None
    found = replace(document, data={"target": data["target"]}).validate(_Placed).target
    if found is None or isinstance(found, Where):
        return found
    return Where(in_order=(found,) if isinstance(found, str) else found)


def place_of(document: Document, name: str) -> str:
    """The field in which a job names a target, dotted."""
    target, path = document.data["target"], "target"
    if isinstance(target, dict):
        key = "in_order" if target.get("in_order") else "cheapest"
        target, path = target[key], f"{path}.{key}"
    return f"{path}.{target.index(name)}" if isinstance(target, list) else path
