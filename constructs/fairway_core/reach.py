"""How ssh gets from a user's machine to a target's host, where no address leads there."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from fairway_core.documents import FieldError, Model
from fairway_core.resource_ids import parts_of

# As ssh's ProxyJump takes them: a name that ssh knows, or an address.
_JUMP = re.compile(r"(?:[\w.][\w.+-]*@)?(?:[\w.][\w.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")


def _bastion(text: str) -> str:
    # What Terraform will fill in, in the output of a stack.
    if not text.startswith("${"):
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
