"""Parsing of facts from the output of `terraform providers schema -json`.

It adds two facts that the schema omits: a resource's `id` cannot be set although it is marked
optional, and a block of the provider's own configuration may occur only once although no limit is
written.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_constructs.bindings.facts import Attribute, Body, Facts, NestedBlock
from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_HOW = "terraform providers schema -json > schema.json"


def read_provider_schema(
    file: Path,
    provider: str,
    resources: Collection[str],
    data_sources: Collection[str],
    version: str | None = None,
) -> Facts:
    """Returns the facts about the named resources and data sources of `provider`
    ("hashicorp/azurerm").

    `file` is the printed JSON, which lacks the provider's version: it is "" by default.

    Raises UserError if the file cannot be read, or lacks one of them.
    """
    document, version = _read(file), version or ""
    try:
        schema = _provider(document, provider, file)
        of_resources, of_data = schema["resource_schemas"], schema["data_source_schemas"]
        known = [*of_resources, *(f"data.{name}" for name in of_data)]
    except (AttributeError, TypeError):
        raise _incomplete(file, provider) from None
    named = {*resources, *(f"data.{name}" for name in data_sources)}
    unknown = [
        Finding(
            "unknown-type",
            f"{provider} {version}".strip() + f" has no {name}",
            did_you_mean(name, known) or "name a type as in Terraform's addresses",
        )
        for name in sorted(named.difference(known))
    ]
    if unknown:
        raise UserError(unknown)
    try:
        return Facts(
            provider,
            version,
            _once(_body(schema["provider"]["block"], "provider")),
            {name: _resource(of_resources[name]["block"], name) for name in sorted(resources)},
            {name: _resource(of_data[name]["block"], name) for name in sorted(data_sources)},
        )
    except (AttributeError, KeyError, TypeError):
        raise _incomplete(file, provider) from None


def _incomplete(file: Path, provider: str) -> UserError:
    return UserError.of("no-schema", f"{file}: holds no whole schema of {provider}", _HOW)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise UserError.of("no-schema", f"{file}: {error.strerror}", _HOW) from error
    except ValueError as error:
        raise UserError.of("no-schema", f"{file}: is not JSON: {error}", _HOW) from error


def _provider(document: Any, provider: str, file: Path) -> Mapping[str, Any]:
    """Returns the provider's part, with Terraform's names of its members."""
    schemas = document.get("provider_schemas", {}) if isinstance(document, dict) else {}
    for source, schema in schemas.items():
        # A source includes the host of its registry.
        if source == provider or source.endswith(f"/{provider}"):
            return {"resource_schemas": {}, "data_source_schemas": {}, **schema}
    raise UserError.of("no-schema", f"{file}: holds no schema of {provider}", _HOW)


def _resource(block: Mapping[str, Any], name: str) -> Body:
    body = _body(block, name)
    own = body.attributes.get("id")
    if own is None or own.required:
        return body
    return Body({**body.attributes, "id": Attribute(own.type, computed=True)}, body.blocks)


def _once(body: Body) -> Body:
    blocks = body.blocks.items()
    once = {name: replace(it, max_items=1, body=_once(it.body)) for name, it in blocks}
    return replace(body, blocks=once)


def _body(block: Mapping[str, Any], path: str) -> Body:
    return Body(
        {
            name: _attribute(attribute, f"{path}.{name}")
            for name, attribute in block.get("attributes", {}).items()
        },
        {
            name: _nested(nested, f"{path}.{name}")
            for name, nested in block.get("block_types", {}).items()
        },
    )


def _attribute(attribute: Mapping[str, Any], path: str) -> Attribute:
    if "type" not in attribute:
        raise _unsupported(path, "an attribute with nested attributes")
    flags = ("required", "optional", "computed", "write_only")
    return Attribute(attribute["type"], **{flag: bool(attribute.get(flag)) for flag in flags})


def _nested(nested: Mapping[str, Any], path: str) -> NestedBlock:
    mode = nested["nesting_mode"]
    if mode not in ("single", "list", "set"):
        raise _unsupported(path, f"a block nested as a {mode}")
    limits = nested.get("min_items", 0), nested.get("max_items")
    return NestedBlock(mode, *limits, _body(nested["block"], path))


def _unsupported(path: str, what: str) -> UserError:
    return UserError.of(
        "unsupported-schema",
        f"{path}: is {what}, which the generator cannot write",
        "teach fairway_constructs.bindings.provider_schema and .render about it",
    )
