"""Where a job says that it runs: on one target, or on the first of several that has room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from fairway_core.documents import FieldError, Model
from fairway_core.durations import Span
from fairway_core.target import Name

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


class Where(Model):
    """Several targets: a run goes to the first, and to the next where that has no room for it."""

    in_order: Names
    """Names of targets, the best one first."""
    patience: Span | None = None
    """How long a run may wait on a target before it goes to the next one; without it a run leaves
    only a target that has no capacity or quota for it.
    """


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
