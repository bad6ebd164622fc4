"""Reads the fields of a record, each of the kind that it must be. Standard library only."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TypeVar

    T = TypeVar("T")

HINT = "submit the job again from its file"
_MOST = 1 << 53  # whole numbers up to here are exact in every reader of JSON
_LAST_SECOND = 253_402_300_800.0  # the year 10000, which no calendar of Python's has


class Unfit(Exception):
    """What was read is not what should be there; the text says why."""


class OtherVersion(Unfit):
    """Another release wrote it."""


class Damaged(Fault):
    """A file of a run cannot be read; the text names it and says why."""


def shown(value: object) -> str:
    """The beginning of a value, without characters that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(value)[:40])


class Fields:
    """The fields of one mapping; Unfit, which names field and record, for one that is missing or
    of another kind. What ends in `_or_none` may be null, or missing."""

    __slots__ = ("facts", "what")

    def __init__(self, facts: object, what: str) -> None:
        if not isinstance(facts, dict):
            raise Unfit(f"{what} is not a mapping")
        self.facts: Mapping[str, Any] = facts
        self.what = what

    def unfit(self, name: str) -> Unfit:
        """What is said of a field that is missing, or of another kind."""
        called = f"`{shown(name)}` of {self.what}"
        if name not in self.facts:
            return Unfit(f"{called} is missing")
        return Unfit(f"{called} is {shown(self.facts[name])}")

    def text(self, name: str) -> str:
        """A text."""
        value = self.facts.get(name)
        if isinstance(value, str):
            return value
        raise self.unfit(name)

    def plain(self, name: str) -> str:
        """A text without characters that could move a terminal's cursor."""
        value = self.text(name)
        if value.isprintable():
            return value
        raise self.unfit(name)

    def text_or_none(self, name: str) -> str | None:
        """A text, or None."""
        return None if self.facts.get(name) is None else self.text(name)

    def count(self, name: str) -> int:
        """A whole number that is not negative."""
        value = self.facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST:
            return value
        raise self.unfit(name)

    def count_or_none(self, name: str) -> int | None:
        """A whole number that is not negative, or None."""
        return None if self.facts.get(name) is None else self.count(name)

    def span(self, name: str) -> float:
        """Seconds, not negative."""
        value = self.facts.get(name)
        # Neither NaN nor a whole number that no float can hold lies between the two.
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST:
            return float(value)
        raise self.unfit(name)

    def span_or_none(self, name: str) -> float | None:
        """Seconds, or None."""
        return None if self.facts.get(name) is None else self.span(name)

    def moment(self, name: str) -> float:
        """Seconds since 1970."""
        value = self.span(name)
        if value < _LAST_SECOND:
            return value
        raise self.unfit(name)

    def moment_or_none(self, name: str) -> float | None:
        """Seconds since 1970, or None."""
        return None if self.facts.get(name) is None else self.moment(name)

    def whole_or_none(self, name: str) -> int | None:
        """A whole number, which may be negative, or None."""
        return None if self.facts.get(name) is None else self.whole(name)

    def whole(self, name: str) -> int:
        """A whole number, which may be negative."""
        value = self.facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST:
            return value
        raise self.unfit(name)

    def number(self, name: str) -> float:
        """A number of any sign."""
        value = self.facts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
            return float(value)
        raise self.unfit(name)

    def flag_or_none(self, name: str) -> bool | None:
        """Yes or no, or None."""
        return None if self.facts.get(name) is None else self.flag(name)

    def flag(self, name: str) -> bool:
        """Yes or no; no where it is missing."""
        value = self.facts.get(name, False)
        if isinstance(value, bool):
            return value
        raise self.unfit(name)

    def each(self, name: str) -> list[Any]:
        """A list; an empty one where it is missing."""
        value = self.facts.get(name, [])
        if isinstance(value, list):
            return value
        raise self.unfit(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; an empty one where it is missing."""
        values = self.each(name)
        if all(isinstance(value, str) for value in values):
            return tuple(values)
        raise self.unfit(name)

    def counts(self, name: str) -> dict[str, int]:
        """How many there are of each name; none where it is missing."""
        values = self.mapping(name)
        numbers = Fields(values, f"`{name}` of {self.what}")
        return {each: numbers.count(each) for each in values}

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping; an empty one where it is missing."""
        value = self.facts.get(name, {})
        if isinstance(value, dict):
            return value
        raise self.unfit(name)

    def variables(self, name: str) -> dict[str, str]:
        """Environment variables; none where it is missing."""
        values = self.mapping(name)
        if all(isinstance(value, str) for value in values.values()):
            return values
        raise self.unfit(name)


def parse(path: Path, text: bytes, make: Callable[[Any], T]) -> T:
    """What `make` makes of the JSON that was read from a file; Damaged where that fails."""
    try:
        return make(json.loads(text))
    except RecursionError:
        why = "nested too deeply"
    except OtherVersion as error:
        hint = "use the release that wrote it, or submit the job again from its file"
        raise Damaged("other-release", f"{path}: of another release: {error}", hint) from None
    except (ValueError, Unfit) as error:
        why = str(error)
    raise Damaged("damaged-run", f"{path}: damaged: {why}", HINT)


def read(path: Path, make: Callable[[Any], T]) -> T | None:
    """The same of the file itself; None where there is none."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    return parse(path, text, make)
