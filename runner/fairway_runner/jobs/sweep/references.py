"""What a sweep's `files:` and `python:` refer to, as they are written."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from fairway_core.documents import FieldError


def _pattern(value: str) -> str:
    if not [part for part in value.split("/") if part not in ("", ".")]:
        raise FieldError("the pattern names no file", "for example data/*.csv")
    if ".." in value.split("/"):
        message = "`..` leads out of the job's folder"
        raise FieldError(message, "write the files' absolute path")
    return value


def _name_pattern(value: str) -> str:
    if value.startswith("/"):
        message = "the pattern begins with `/`"
        raise FieldError(message, "leave it out: names begin below the input's folder")
    return _pattern(value)


def _reference(value: str) -> str:
    name = r"[^\W\d]\w*"
    if not re.fullmatch(rf"{name}(\.{name})*:{name}", value):
        message = f"`{value[:60]}` does not name a function"
        raise FieldError(message, "write module:function, for example my_points:generate")
    return value


FilePattern = Annotated[str, AfterValidator(_pattern)]
"""A shell pattern, relative to the job's folder or absolute; `**` is any depth of folders,
linked ones too."""

NamePattern = Annotated[str, AfterValidator(_name_pattern)]
"""A shell pattern of names below a folder; `**` is any depth of folders, linked ones too."""

FunctionReference = Annotated[str, AfterValidator(_reference)]
"""`module:function`; the module lies in the job's folder."""
