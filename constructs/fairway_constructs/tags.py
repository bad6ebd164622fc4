"""Tags for all that is below a construct, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.arguments import checked
from fairway_constructs.cdk import Aspect, Aspects, Resource
from fairway_core.environment.tags import as_azure_takes_them

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct, IConstruct


@checked
class Tags:
    """Adds tags to all resources below a construct or a stack that can have some.

    >>> Tags.of(stack).add("cost-centre", "4711")  # doctest: +SKIP
    """

    def __init__(self, scope: Construct) -> None:
        self._scope = scope

    @classmethod
    def of(cls, scope: Construct) -> Tags:
        """The tags of what is below `scope`."""
        return cls(scope)

    def add(self, name: str, value: str) -> None:
        """Adds one, also to what is made later; it replaces one of that name."""
        as_azure_takes_them({name: value})
        Aspects.of(self._scope).add(_Tag(name, value))


class _Tag(Aspect):
    def __init__(self, name: str, value: str) -> None:
        self._tag = {name: value}

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, Resource) and node.takes_tags:
            # To Azure names that differ in case alone are one: each keeps the spelling that it has.
            has = {name.lower(): name for name in node.tags_input}
            own = {has.get(name.lower(), name): value for name, value in self._tag.items()}
            node.tags = {**node.tags_input, **own}
