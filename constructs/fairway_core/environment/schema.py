"""The JSON schema of environment files, for editors."""

from __future__ import annotations

from typing import Any

from fairway_core.environment.defaults import SECTIONS
from fairway_core.environment.model import Environment
from fairway_core.schema import schema_of

# A value may come from an environment variable, see `variables`.
_REFERENCE = r"\$\{env:"


def environment_schema() -> dict[str, Any]:
    """Returns the schema of an environment file, with `defaults:`, variables and keys for anchors.
    An item whose section has defaults may be incomplete: they may have the missing fields."""
    schema = schema_of(Environment, title="Fairway environment", reference=_REFERENCE)
    definitions, properties = schema["$defs"], schema["properties"]
    schema["patternProperties"] = {"^x-": {}}
    schema["allOf"] = []
    for singular, plural in SECTIONS.items():
        section = properties[plural]
        incomplete = _incomplete(section["additionalProperties"], definitions)
        about = {key: section.pop(key) for key in ("description", "default") if key in section}
        properties[plural] = about
        schema["allOf"].append(
            {
                "if": {
                    "properties": {"defaults": {"required": [singular]}},
                    "required": ["defaults"],
                },
                "then": {"properties": {plural: {**section, "additionalProperties": incomplete}}},
                "else": {"properties": {plural: section}},
            }
        )
        definitions["Defaults"]["properties"][singular] |= _default_fields(incomplete, definitions)
    return schema


def _incomplete(item: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of items that may be incomplete, and adds their definitions."""
    branches = []
    for branch in item.get("anyOf", [item]):
        name = branch["$ref"].rpartition("/")[2]
        partial = {key: value for key, value in definitions[name].items() if key != "required"}
        definitions[f"{name}WithDefaults"] = partial
        branches.append({"$ref": f"#/$defs/{name}WithDefaults"})
    return {"anyOf": [*branches, {"type": "null"}]}


def _default_fields(incomplete: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of every kind of item; merging decides which of them fit."""
    fields: dict[str, Any] = {}
    for branch in incomplete["anyOf"]:
        name = branch.get("$ref", "").rpartition("/")[2]
        for field, schema in definitions.get(name, {}).get("properties", {}).items():
            known = fields.setdefault(field, {"anyOf": []})["anyOf"]
            if schema not in known:
                known.append(schema)
    return {"type": "object", "properties": fields, "additionalProperties": False}
