"""What a job's parameters are: their names, and the values that they take."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from fairway_core.documents import FieldError

Scalar = str | int | float | bool
ParamValue = Scalar | list[Scalar]


def is_identifier(text: str) -> bool:
    """Whether the text can name a parameter."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", text) is not None


def _identifier(value: str) -> str:
    if not is_identifier(value):
        raise FieldError(f"`{value[:60]}` is not a name", "use letters, digits and underscores")
    return value


Identifier = Annotated[str, AfterValidator(_identifier)]
