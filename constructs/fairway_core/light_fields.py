"""Types of fields that need no pydantic, and the checks that they are made of: durations, names,
words of command lines, images."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import core_schema

    from fairway_core.yaml_text import DataPath


class FieldError(ValueError):
    """Error of a model's validator: what is wrong with the field, and how to fix it. `path` points
    below the value if only a part is wrong, with `of_key` at the key there; the line of a `secret`
    is not shown; `id` is the finding's."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        path: DataPath = (),
        *,
        of_key: bool = False,
        secret: bool = False,
        id: str = "bad-value",  # noqa: A002  # the word of findings
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.path = path
        self.of_key, self.secret, self.id = of_key, secret, id


def as_field_error(error: UserError, path: DataPath = ()) -> FieldError:
    """Returns the first finding of an error as a FieldError."""
    finding = error.findings[0]
    return FieldError(finding.message, finding.hint, path)


class Check:
    """An `AfterValidator` for fields of light models too: `check` raises FieldError or UserError
    for a value of the field's type that does not fit. Editors' schemas have the `pattern` of text,
    unless that is empty."""

    def __init__(self, check: Callable[[Any], object], pattern: str = "") -> None:
        self.check, self.pattern = check, pattern

    def func(self, value: Any) -> Any:
        """Returns the value. Raises FieldError if it does not fit."""
        try:
            self.check(value)
        except UserError as error:
            raise as_field_error(error) from None
        return value

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.func, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(schema) | ({"pattern": f"^(?:{self.pattern})$"} if self.pattern else {})


def require(is_fit: Callable[[Any], object], message: str, hint: str, pattern: str = "") -> Check:
    """Returns a check that refuses an unfit value, which is `{}` in the message."""

    def check(value: Any) -> None:
        if not is_fit(value):
            raise FieldError(message.format(value), hint)

    return Check(check, pattern)


def matching(pattern: str, message: str, hint: str, *, in_schema: bool = False) -> Check:
    """Returns a check that refuses text unlike `pattern`, which editors' schemas have too with
    `in_schema`, if it is one of JavaScript's as well; `{}` in a message is the text."""
    return require(partial(re.fullmatch, pattern), message, hint, pattern if in_schema else "")


HEAD_IMAGE = "python:3.12.14-slim-trixie"
"""The image of the head pod and of the pods of nodes. Source: docker-library/official-images."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit of a duration."""
LONGEST = 36_500 * UNITS["d"]
"""The longest duration in seconds: far beyond any job or retention, and within the limits of
services."""
DEAREST = 10**6
"""The highest price of an hour: far beyond any machine's, so that sums of prices are numbers."""
SPAN_PATTERN = r"([0-9]+(?:\.[0-9]+)?)([smhd])"
"""Regular expression of a duration in a document."""


def seconds_of(value: object) -> float:
    """Returns the duration in seconds. Raises FieldError unless it is positive and at most a
    hundred years."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)  # an argument, or from a model's own dump
    match = re.fullmatch(SPAN_PATTERN, value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise FieldError(f"`{value}` is not a span of time", "write it as 25s, 10m, 12h or 90d")
    seconds = float(match[1]) * UNITS[match[2]]
    if seconds > LONGEST:
        raise FieldError(f"`{value}` is longer than a hundred years", "write 36500d or less")
    return seconds


# Source: https://github.com/distribution/reference.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?"


def is_image(text: str) -> bool:
    """Returns True if an image in a registry may have that name."""
    return len(text) <= 255 and re.fullmatch(_IMAGE, text, re.ASCII) is not None


_PRINTABLE = require(str.isprintable, "this holds a control character", "write it as plain text")


def _word(value: str) -> None:
    """Raises FieldError for text that has a space or begins with `-`, for command lines."""
    if value.startswith("-"):
        raise FieldError("this begins with `-`, as options of programs do", "remove it")
    # Terraform writes an expression while an address is unknown.
    if not value.startswith("${") and any(character.isspace() for character in value):
        raise FieldError("this holds a space", "remove it")


def _folder(value: str) -> None:
    if value.startswith("-"):
        raise FieldError("this begins with `-`, as options of programs do", "write it as ./-…")
    _PRINTABLE.func(value)


def _region(value: str) -> None:
    if value and not (value.isascii() and value.isalnum() and value.islower()):
        near = re.sub(r"[^a-z0-9]", "", value.lower())
        hint = f"did you mean `{near}`?" if near else "for example westeurope"
        raise FieldError("this is not an Azure region's name", hint)


def _image(value: str) -> None:
    """Refuses names that no node could pull: pods would wait for ever."""
    if not value.startswith("${") and not is_image(value):
        raise FieldError(
            f"`{value[:60]}` is not a container image",
            "for example myregistry.azurecr.io/train:1; lower-case letters except in the tag",
        )


def _exact(value: str) -> None:
    """Refuses a name without a version: privileged images must change only with their name."""
    name, _, digest = value.partition("@")
    if not digest and name.rpartition("/")[2].partition(":")[2] in ("", "latest"):
        raise FieldError(
            f"`{value}` is whatever its registry calls the latest",
            f"name a version, for example {HEAD_IMAGE}, or a digest",
        )


_AMOUNT = matching(
    r"\d{1,15}(\.\d{1,9})?([numkMGTPE]|[KMGTPE]i)?",
    "this is not an amount of Kubernetes",
    "a number, and k, M, G or Ki, Mi, Gi behind it, or m for thousandths: 64Gi, 500m",
)


def _scratch(value: str) -> None:
    if value.startswith("/"):
        if not re.fullmatch(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+", value):
            raise FieldError("this is not a folder of nodes", "for example /mnt/disks/scratch")
    elif value:
        _AMOUNT.func(value)


Text = Annotated[str, _PRINTABLE]
Label = Annotated[
    str,
    matching(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
        "this is not a name of Kubernetes",
        "lower-case letters, digits, hyphens and dots, with a letter or digit at both ends",
    ),
]
Word = Annotated[Text, Check(_word)]
Folder = Annotated[str, Check(_folder)]
Amount = Annotated[str, _AMOUNT]
Scratch = Annotated[str, Check(_scratch)]
Image = Annotated[Word, Check(_image)]
ExactImage = Annotated[Image, Check(_exact)]
Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        "this is not a target's name",
        "up to 63 letters, digits, dots, hyphens and underscores; no hyphen at the front",
    ),
]
Region = Annotated[str, Check(_region)]
JumpHost = Annotated[
    str,
    matching(
        # As in ssh's ProxyJump: a name that ssh knows, or an address.
        r"(?:[\w.][\w.+-]*@)?(?:[\w.][\w.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?",
        "`{}` is not a jump host",
        "write user@host or user@host:port, one per item",
    ),
]
