"""Facts from the provider's schema about the selected resources, and their kept copy.

The kept copy, `azurerm.json`, has one attribute per line, first its type and then its flags:
`"name": ["string", "required"]`. Types are Terraform's own type constraints as `terraform providers
schema -json` writes them: "string", "number", "bool", ["list", T], ["set", T], ["map", T],
["object", {"name": T, ...}].
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

Type: TypeAlias = str | list[Any]

KEPT = Path(__file__).with_name("azurerm.json")


@dataclass(frozen=True)
class Attribute:
    """One attribute: required, or optional, or only computed, or optional and computed."""

    type: Type
    required: bool = False
    optional: bool = False
    computed: bool = False
    write_only: bool = False

    @property
    def settable(self) -> bool:
        """True if a configuration may set the attribute."""
        return self.required or self.optional

    def to_json(self) -> list[Any]:
        """Returns the attribute's line in the kept facts."""
        flags = ("required", "optional", "computed", "write_only")
        return [self.type, *(flag for flag in flags if getattr(self, flag))]

    @classmethod
    def from_json(cls, line: list[Any]) -> Attribute:
        """Returns the attribute of a line: the inverse of `to_json`."""
        return cls(line[0], **dict.fromkeys(line[1:], True))


@dataclass(frozen=True)
class Body:
    """The content of a block, between its braces: attributes and nested blocks, by name."""

    attributes: Mapping[str, Attribute]
    blocks: Mapping[str, NestedBlock]

    def to_json(self) -> dict[str, Any]:
        """Returns the body as plain data, without empty parts."""
        attributes = {name: self.attributes[name].to_json() for name in sorted(self.attributes)}
        blocks = {name: self.blocks[name].to_json() for name in sorted(self.blocks)}
        return {"attributes": attributes} | ({"blocks": blocks} if blocks else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Body:
        """Returns the body of plain data: the inverse of `to_json`."""
        return cls(
            {name: Attribute.from_json(line) for name, line in document["attributes"].items()},
            {name: NestedBlock.from_json(it) for name, it in document.get("blocks", {}).items()},
        )


@dataclass(frozen=True)
class NestedBlock:
    """A nested block: `nesting` is "single", "list" or "set"; None for `max_items` is no limit."""

    nesting: str
    min_items: int
    max_items: int | None
    body: Body

    @property
    def once(self) -> bool:
        """True if its parent may have at most one such block."""
        return self.nesting == "single" or self.max_items == 1

    def to_json(self) -> dict[str, Any]:
        """Returns the block as plain data, without limits that are 0 or None."""
        limits = {"min_items": self.min_items, "max_items": self.max_items}
        said = {name: limit for name, limit in limits.items() if limit}
        return {"nesting": self.nesting, **said, **self.body.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> NestedBlock:
        """Returns the block of plain data: the inverse of `to_json`."""
        limits = document.get("min_items", 0), document.get("max_items")
        return cls(document["nesting"], *limits, Body.from_json(document))


@dataclass(frozen=True)
class Facts:
    """The provider's own arguments, resources and data sources, by Terraform's names."""

    provider: str
    version: str
    configuration: Body
    resources: Mapping[str, Body]
    data_sources: Mapping[str, Body]

    def to_text(self) -> str:
        """Returns the kept form: JSON, sorted, one attribute per line."""
        document = {
            "provider": self.provider,
            "version": self.version,
            "configuration": self.configuration.to_json(),
            "resources": {name: self.resources[name].to_json() for name in sorted(self.resources)},
            "data_sources": {
                name: self.data_sources[name].to_json() for name in sorted(self.data_sources)
            },
        }
        return "\n".join(_lines(document)) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Facts:
        """Returns the facts of the kept form: the inverse of `to_text`."""
        document = json.loads(text)
        return cls(
            document["provider"],
            document["version"],
            Body.from_json(document["configuration"]),
            {name: Body.from_json(body) for name, body in document["resources"].items()},
            {name: Body.from_json(body) for name, body in document["data_sources"].items()},
        )


@cache
def kept_facts() -> Facts:
    """Returns the facts that the bindings were generated from."""
    return Facts.from_text(KEPT.read_text(encoding="utf-8"))


def _lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yields JSON with each member of an object on its own line, and anything else on one line."""
    yield indent[1:] + "{" if not indent else "{"
    last = len(value) - 1
    for position, (name, member) in enumerate(value.items()):
        head = f"{indent} {json.dumps(name)}: "
        comma = "," if position < last else ""
        if isinstance(member, Mapping) and member:
            inner = list(_lines(member, indent + " "))
            yield head + inner[0]
            yield from inner[1:-1]
            yield inner[-1] + comma
        else:
            yield head + json.dumps(member) + comma
    yield indent + "}"
