"""Addresses of people, as documents name them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from fairway_core.documents import FieldError, written_as

PLACEHOLDER = "you@example.com"
"""The address of examples and of new projects, which nobody reads."""

_EMAIL = re.compile(r"[^@\s,;<>]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


def _email(address: str) -> str:
    if not _EMAIL.fullmatch(address) or not address.isprintable():
        raise FieldError(f"`{address}` is not an email address", "for example team@example.com")
    return address


def _emails(addresses: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for index, address in enumerate(addresses):
        if address.lower() in seen:
            raise FieldError(f"`{address}` is named twice", "name it once", path=(index,))
        seen.add(address.lower())
    return addresses


Email = Annotated[str, AfterValidator(_email), written_as(_EMAIL.pattern)]
Emails = Annotated[tuple[Email, ...], AfterValidator(_emails)]
