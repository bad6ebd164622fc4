"""Fields of several files, with a grammar of their own: emails, images, and ways to a host."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from fairway_core.documents import FieldError, Model, written_as

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


# As https://github.com/distribution/reference has it.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)


def is_image(text: str) -> bool:
    """Whether a registry may have an image of that name.

    >>> is_image("myregistry.azurecr.io/team/train:1"), is_image("Train:1"), is_image("train:")
    (True, False, False)
    """
    return len(text) <= 255 and _IMAGE.fullmatch(text) is not None


# As ssh's ProxyJump takes them: a name that ssh knows, or an address.
_JUMP = re.compile(r"(?:[\w.][\w.+-]*@)?(?:[\w.][\w.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")


def _bastion(text: str) -> str:
    # What Terraform will fill in, in the output of a stack.
    if not text.startswith("${"):
        from fairway_core.resource_ids import parts_of

        parts_of("Bastion", text)
    return text


def _jump_host(text: str) -> str:
    if not _JUMP.fullmatch(text):
        raise FieldError(
            f"`{text}` is not a jump host", "write user@host or user@host:port, one per item"
        )
    return text


class Reach(Model, defer_build=True):
    """The route to a host with a private address: an Azure Bastion, or jump hosts."""

    bastion: Annotated[str, AfterValidator(_bastion)] | None = None
    """The id of an Azure Bastion that allows native clients and connections by IP address."""
    jump: tuple[Annotated[str, AfterValidator(_jump_host)], ...] | None = Field(
        default=None, min_length=1
    )
    """Jump hosts in the order to pass them, each `user@host` or `user@host:port`."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.bastion is None) == (self.jump is None):
            raise FieldError("`bastion:` and `jump:` cannot be combined", "keep one of the two")
        return self
