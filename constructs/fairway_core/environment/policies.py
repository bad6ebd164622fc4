"""What a company's own Azure Policies refuse, so that it is known before Azure is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from fairway_core.documents import FieldError, Model
from fairway_core.environment.values import Location

Encrypted = Literal["storage", "files", "registry", "batch", "disks"]


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if not name.strip():
            raise FieldError("a tag without a name", "name it, for example `cost-center`", (index,))
        if name.lower() in seen:
            raise FieldError(f"`{name}` is named twice", "name it once", (index,))
        seen.add(name.lower())
    return names


class Policies(Model, defer_build=True):
    """What Azure Policy denies in the subscription: an environment that breaks it is refused here.

    These settings do not change what is deployed. To list your policies: az policy assignment list.
    """

    required_tags: Annotated[tuple[str, ...], AfterValidator(_each_once)] = ()
    """Names of tags that every resource must have, with a value."""
    locations: tuple[Location, ...] = ()
    """The regions in which resources are allowed; by default all."""
    deny_public_addresses: bool = False
    """Whether public IP addresses are denied, such as those of a NAT gateway or a Bastion."""
    deny_public_access: bool = False
    """Whether storage, vault, registry and Batch must be closed to public networks, even to chosen
    ranges."""
    require_cmk: tuple[Encrypted, ...] = ()
    """What must be encrypted with a customer-managed key."""
