"""A synthesized stack as plain data for rules, without nulls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_core.checks.check import Match

Resources = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The resources of a stack: arguments by type and name."""

_ADDRESS = re.compile(r"\$\{(?:[^}$]*\W)?(?P<address>azurerm_\w+\.[\w-]+)\.")


def without_nulls(value: Any) -> Any:
    """Returns a stack's `cdk.tf.json` without nulls and comments."""
    if isinstance(value, Mapping):
        return {
            key: without_nulls(item)
            for key, item in value.items()
            if key != "//" and not _is_null(item)
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value if not _is_null(item)]
    return value


def _is_null(value: Any) -> bool:
    return value is None or value == "${null}"


def resources_of_type(type: str) -> Callable[[Resources], Iterator[Match]]:  # noqa: A002
    """Returns a function that yields each resource of that type: `arguments`."""

    def matches(resources: Resources) -> Iterator[Match]:
        for name, arguments in resources.get(type, {}).items():
            yield (type, name), {"arguments": arguments}

    return matches


def every(resources: Resources) -> Iterator[Match]:
    """Yields every resource: `type`, `arguments`."""
    for type_, named in resources.items():
        for name, arguments in named.items():
            yield (type_, name), {"type": type_, "arguments": arguments}


def referenced_address(expression: Any) -> str | None:
    """Returns the address that an expression reads, or None.

    >>> referenced_address("${azurerm_public_ip.nat-address.id}")
    'azurerm_public_ip.nat-address'
    """
    match = _ADDRESS.search(expression) if isinstance(expression, str) else None
    return match["address"] if match else None
