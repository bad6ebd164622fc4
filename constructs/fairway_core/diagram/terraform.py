"""The synthesized stacks of an environment as one set of resources that refer to each other.

A reference is an expression in a text: `${azurerm_subnet.compute.id}` within a stack, and an
output of another stack, read from its state, between stacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_core.json_values import leaves, nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EXPRESSION = re.compile(r"\$\{[^}]*\}")
_OTHER_STACK = re.compile(
    r"data\.terraform_remote_state\.cross-stack-reference-input-([\w-]+)\.outputs\.([\w-]+)"
)
_SAME_STACK = re.compile(r"(?<![\w.-])azurerm_(\w+)\.([\w-]+)")


@dataclass(frozen=True)
class Resource:
    """A resource by its address, with its arguments: `type` without the provider, as `subnet`, and
    `key`, its name in Terraform."""

    stack: str
    type: str
    key: str
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """Its name in Azure; `…` is what Terraform alone will know."""
        return _EXPRESSION.sub("…", text(self.arguments.get("name")) or self.key)

    @property
    def id(self) -> str:
        """A name for it in the text of a diagram: letters, digits and underscores."""
        return re.sub(r"\W", "_", f"{self.stack}_{self.type}_{self.key}".lstrip("_"))


class Terraform:
    """All resources of the stacks, by type, and what their texts refer to."""

    def __init__(self, stacks: Mapping[str, Mapping[str, Any]]) -> None:
        self._stacks = stacks
        self._resources = {
            (stack, type_, key): Resource(stack, type_, key, arguments)
            for stack, document in sorted(stacks.items())
            for full_type, named in sorted(document.get("resource", {}).items())
            if (type_ := full_type.removeprefix("azurerm_"))
            for key, arguments in sorted(named.items())
        }
        # The records of clusters that the stacks publish, by the cluster's name.
        self.targets: dict[str, Mapping[str, Any]] = {
            record["name"]: record
            for document in stacks.values()
            for record in document.get("output", {}).get("targets", {}).get("value", [])
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
            for type_, key in _SAME_STACK.findall(each):
                if resource := self._resources.get((stack, type_, key)):
                    found[resource] = None
        return list(found)

    def argument(self, resource: Resource, name: str) -> list[Resource]:
        """The resources that the argument of that name refers to, wherever it is nested."""
        return self.referred(list(nested(resource.arguments, name)), resource.stack)

    def references(self, name: str, *types: str) -> Iterator[tuple[Resource, Resource]]:
        """Each resource of the types with each that its argument of that name refers to."""
        for resource in self.of(*types):
            for other in self.argument(resource, name):
                yield resource, other

    def referring(self, to: Resource, name: str, *types: str) -> Iterator[Resource]:
        """The resources of the types whose argument of that name refers to a resource."""
        return (one for one, other in self.references(name, *types) if other == to)


def texts(value: Any) -> Iterator[str]:
    """Every text in plain data."""
    return (each for each in leaves(value) if isinstance(each, str))


def text(value: Any) -> str:
    """The value where it is a text that is not the CDK's null, or nothing."""
    return value if isinstance(value, str) and value != "${null}" else ""
