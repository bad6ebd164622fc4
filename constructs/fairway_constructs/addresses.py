"""The Terraform addresses in a stack, of which no two are alike.

cdktf makes an address from a resource's whole path and a hash. A stack may ask for short ones,
`azurerm_subnet.compute`, made from the id alone. cdktf writes two resources of one address over
each other without a word, so a second one is refused when it is made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

# What cdktf leaves out of a resource's id. Source: cdktf, lib/private/unique.ts.
_DISALLOWED = re.compile(r"[^A-Za-z0-9_-]")


class Addresses:
    """The addresses of one stack and who has which, and what the stack has once.

    >>> addresses = Addresses()
    >>> addresses.take("azurerm_subnet.compute", "network/compute")
    >>> addresses.take("azurerm_subnet.compute", "other/compute")
    Traceback (most recent call last):
    ...
    fairway_core.findings.UserError: two resources have the address azurerm_subnet.compute: ...
    """

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._shared: dict[Hashable, object] = {}
        # What was asked to be open, as arguments of the checks' `Asked`.
        self.opened: dict[str, Any] = {}

    def take(self, address: str, path: str) -> None:
        """Records the address of the resource at that path; UserError where it is taken."""
        if address in self.owners:
            raise UserError.of(
                "address-taken",
                f"two resources have the address {address}: {self.owners[address]} and {path}",
                "give one of them another name, or make the stack without `short_addresses`",
            )
        self.owners[address] = path

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the one object that the stack holds under that key, made at the first request."""
        if key not in self._shared:
            self._shared[key] = make()
        # Each key is used in one place, with one `make`.
        return self._shared[key]  # type: ignore[return-value]


def short_id(id: str) -> str:  # noqa: A002
    """The id as it stands in an address.

    >>> short_id("privatelink.blob")
    'privatelinkblob'
    """
    return _DISALLOWED.sub("", id)
