"""The synthesized stacks of an environment as one set of resources that refer to each other.

A reference is an expression in a text: `${azurerm_subnet.compute.id}` within a stack, and an
output of another stack, read from its state, between stacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EXPRESSION = re.compile(r"\$\{[^}]*\}")
_OTHER_STACK = re.compile(
    r"data\.terraform_remote_state\.cross-stack-reference-input-([\w-]+)\.outputs\.([\w-]+)"
)
_SAME_STACK = re.compile(r"(?<![\w.-])(azurerm_\w+)\.([\w-]+)")


@dataclass(frozen=True)
class Address:
    """Where a resource stands."""

    stack: str
    type: str
    name: str


@dataclass(frozen=True)
class Resource:
    """A resource with its arguments; compared by its address alone."""

    address: Address
    arguments: Mapping[str, Any]

    @property
    def type(self) -> str:
        """Its type without the provider: `subnet`."""
        return self.address.type.removeprefix("azurerm_")

    @property
    def name(self) -> str:
        """Its name in Azure; `…` is what Terraform alone will know."""
        return _EXPRESSION.sub("…", text(self.arguments.get("name")) or self.address.name)

    @property
    def id(self) -> str:
        """A name for it in the text of a diagram: letters, digits and underscores."""
        at = self.address
        return re.sub(r"\W", "_", f"{at.stack}_{self.type}_{at.name}".lstrip("_"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)


class Terraform:
    """All resources of the stacks, by type, and what their texts refer to."""

    def __init__(self, stacks: Mapping[str, Mapping[str, Any]]) -> None:
        self._stacks = stacks
        self._resources = {
            (address := Address(stack, type_, name)): Resource(address, arguments)
            for stack, document in sorted(stacks.items())
            for type_, named in sorted(document.get("resource", {}).items())
            for name, arguments in sorted(named.items())
        }

    def of(self, *types: str) -> Iterator[Resource]:
        """The resources of the types, given without the provider, in the order of addresses."""
        return (one for one in self._resources.values() if one.type in types)

    def referred(self, value: Any, stack: str) -> list[Resource]:
        """The resources that any text in `value`, a part of a stack, refers to; each once."""
        found: dict[Resource, None] = {}
        for each in texts(value):
            for other, output in _OTHER_STACK.findall(each):
                given = self._stacks.get(other, {}).get("output", {}).get(output, {}).get("value")
                found.update(dict.fromkeys(self.referred(given, other)))
            for type_, name in _SAME_STACK.findall(each):
                resource = self._resources.get(Address(stack, type_, name))
                if resource is not None:
                    found[resource] = None
        return list(found)

    def argument(self, resource: Resource, name: str) -> list[Resource]:
        """The resources that the argument of that name refers to, wherever it is nested."""
        return self.referred(list(nested(resource.arguments, name)), resource.address.stack)

    def targets(self) -> dict[str, Mapping[str, Any]]:
        """The records of clusters that the stacks publish, by the cluster's name."""
        found: dict[str, Mapping[str, Any]] = {}
        for document in self._stacks.values():
            for record in document.get("output", {}).get("targets", {}).get("value", []):
                found[record["name"]] = record
        return found


def texts(value: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)


def nested(value: Any, name: str) -> Iterator[Any]:
    """Every value of the key `name` in plain data, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from nested(item, name)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == name:
                yield item
            else:
                yield from nested(item, name)


def text(value: Any) -> str:
    """The value where it is a text that is not the CDK's null, or nothing."""
    return value if isinstance(value, str) and value != "${null}" else ""
