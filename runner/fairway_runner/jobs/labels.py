"""Tags and notes: words by which people find a run again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from fairway_core.documents import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_CHARACTERS = 10_000


def tag(value: str) -> str:
    """The tag; FieldError where it cannot be one."""
    if not re.fullmatch(r"\w[\w.:=/@+-]{0,62}", value):
        hint = "up to 63 letters, digits and any of _ . : = / @ + -, for example lr=high"
        raise FieldError(f"`{value[:70]}` is not a tag", hint)
    return value


def note(value: str) -> str:
    """The note; FieldError where it is too long."""
    if len(value) > _MOST_CHARACTERS:
        message = f"a note of {len(value):,} characters is too long"
        raise FieldError(message, f"{_MOST_CHARACTERS:,} at most")
    return value.strip()


def each_once(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags without those that came before."""
    return tuple(dict.fromkeys(tags))


Tag = Annotated[str, AfterValidator(tag)]
Tags = Annotated[tuple[Tag, ...], AfterValidator(each_once)]
Note = Annotated[str, AfterValidator(note)]
