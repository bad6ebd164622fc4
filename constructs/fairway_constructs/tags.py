"""Tags for all resources below a construct."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.arguments import checked
from fairway_constructs.cdk import Aspect, Aspects, Resource
from fairway_core.environment.tags import as_azure_takes_them

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct, IConstruct


@checked
class Tags:
    """Tags of all resources below a construct or a stack that support tags.

    >>> Tags.of(stack).add("cost-centre", "4711")  # doctest: +SKIP
    """

    def __init__(self, scope: Construct) -> None:
        self._scope = scope

    @classmethod
    def of(cls, scope: Construct) -> Tags:
        """Returns the tags of the resources below `scope`."""
        return cls(scope)

    def add(self, name: str, value: str) -> None:
        """Adds a tag, also to resources created later; it replaces an existing tag of that name."""
        as_azure_takes_them({name: value})
        Aspects.of(self._scope).add(_Tag(name, value))


class _Tag(Aspect):
    def __init__(self, name: str, value: str) -> None:
        self._tag = {name: value}

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, Resource) and node.takes_tags:
            # Azure ignores the case of tag names: an existing one keeps its spelling.
            has = {name.lower(): name for name in node.tags_input}
            own = {has.get(name.lower(), name): value for name, value in self._tag.items()}
            node.tags = {**node.tags_input, **own}
