"""Which parameters tell the points of a sweep apart, and how their values are shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_runner.jobs.params import ParamValue


def varying(points: Sequence[Mapping[str, ParamValue]]) -> list[str]:
    """The parameters that some points lack or that differ between two of them, in order.

    >>> varying([{"lr": 1, "epochs": 3}, {"lr": 1.0, "epochs": 3}])
    ['lr']
    """
    names = dict.fromkeys(name for point in points for name in point)
    return [name for name in names if not _agree(name, points)]


def shown(value: ParamValue | None) -> str:
    """A value as a cell of a table: as YAML would have it, on one line; None is empty.

    >>> shown(True), shown([1, "a"]), shown("two\\nlines")
    ('true', '[1, a]', '"two\\\\nlines"')
    """
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case str() if not value.isprintable() or not value:
            return json.dumps(value)
    return str(value)


def _agree(name: str, points: Sequence[Mapping[str, ParamValue]]) -> bool:
    first = points[0].get(name)
    # repr tells 1 from 1.0 and from true.
    return all(point.get(name) is first or repr(point.get(name)) == repr(first) for point in points)
