"""The published schemas of Kubernetes: fields, their types, and how lists are merged.

They come from the package `kubernetes-validate`; the newest version in it is used.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


Schema = dict[str, Any]

_META = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TAINT = {"key!": "string", "value": "string", "effect!": _EFFECTS}
_QUOTA = {"name!": "string", "nominalQuota!": "quantity"}
_KINDS: dict[str, Any] = {
    "ResourceFlavor": {"spec": {"nodeLabels": {"*": "string"}, "nodeTaints": [_TAINT]}},
    "ClusterQueue": {
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources!": ["string"],
                    "flavors!": [{"name!": "string", "resources!": [_QUOTA]}],
                }
            ],
            "queueingStrategy": ("StrictFIFO", "BestEffortFIFO"),
            "namespaceSelector": {"matchLabels": {"*": "string"}},
            "preemption": {"withinClusterQueue": ("Never",)},
            "stopPolicy": ("None", "Hold", "HoldAndDrain"),
            "admissionChecksStrategy": {
                "admissionChecks!": [{"name!": "string", "onFlavors": ["string"]}]
            },
        }
    },
    "AdmissionCheck": {
        "spec!": {
            "controllerName!": "string",
            "parameters": {"apiGroup!": "string", "kind!": "string", "name!": "string"},
        }
    },
    "ProvisioningRequestConfig": {"spec!": {"provisioningClassName!": "string"}},
    "ProvisioningRequest": {
        "spec!": {
            "provisioningClassName!": "string",
            "podSets!": [{"podTemplateRef!": {"name!": "string"}, "count!": "integer"}],
        }
    },
    "LocalQueue": {"spec": {"clusterQueue": "string"}},
    "WorkloadPriorityClass": {"value!": "integer", "description": "string"},
    "Workload": {"spec": "any"},  # written only by its controllers
}


def name_of(kind: str) -> str:
    return f"io.x-k8s.kueue.v1beta2.{kind}"


@cache
def custom_definitions() -> dict[str, Schema]:
    return {name_of(kind): object_of(fields) for kind, fields in _KINDS.items()}


def object_of(fields: dict[str, Any]) -> Schema:
    """Returns the schema of a kind with these fields, beside the fields of every object.

    A name with `!` is required; a string names a type, a tuple has the permitted values, a list has
    the form of its items, and `*` stands for any name.
    """
    every = {"apiVersion": "string", "kind": "string", "status": "any"}
    found = _schema({**every, **fields})
    found["properties"]["metadata"] = _META
    return found


def _schema(form: Any) -> Schema:
    if isinstance(form, dict):
        if "*" in form:
            return {"type": "object", "additionalProperties": _schema(form["*"])}
        return {
            "type": "object",
            "properties": {name.rstrip("!"): _schema(each) for name, each in form.items()},
            "required": [name.rstrip("!") for name in form if name.endswith("!")],
        }
    if isinstance(form, list):
        return {"type": "array", "items": _schema(form[0])}
    if isinstance(form, tuple):
        return {"type": "string", "enum": list(form)}
    if form == "quantity":
        return {"oneOf": [{"type": "string"}, {"type": "number"}]}
    return {} if form == "any" else {"type": form}


Path = tuple[str | int, ...]

_ROOT = "kubernetes-json-schema"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class SchemasMissing(Exception):
    """Error that the package with the schemas is not installed."""


@cache
def newest() -> str:
    """Returns the newest version of Kubernetes whose schemas are installed: `1.37.0`."""
    names = [each.name for each in _folder().iterdir() if each.name.endswith("-local")]
    versions = [name.removeprefix("v").removesuffix("-local") for name in names]
    return max(versions, key=lambda text: [int(part) for part in text.split(".")])


@cache
def definitions() -> dict[str, Schema]:
    file = _folder() / f"v{newest()}-local-strict" / "_definitions.json"
    found: dict[str, Schema] = json.loads(file.read_text(encoding="utf-8"))["$defs"]
    return found | custom_definitions()


def resolved(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    return definitions()[reference.rpartition("/")[2]] if reference else schema


def unknown_fields(value: Any, schema: Schema) -> Iterator[Path]:
    """Yields the paths of a value's fields that its schema does not know."""
    for each, form, path in _parts(value, schema):
        known, more = form.get("properties"), form.get("additionalProperties")
        if known and isinstance(each, dict) and not isinstance(more, dict):
            yield from ((*path, name) for name in each if name not in known)


def wrong_types(value: Any, schema: Schema) -> Iterator[tuple[Path, str, str]]:
    """Yields path, found type and expected type of the parts of a value that have a wrong type."""
    for each, form, path in _parts(value, schema):
        expected = _expected(form)
        if each is not None and expected and not any(_is(each, name) for name in expected):
            yield path, _name_of(each), expected[0]


def lacking(value: Any, schema: Schema) -> Iterator[Path]:
    """Yields the paths of required fields that a value lacks."""
    for each, form, path in _parts(value, schema):
        if isinstance(each, dict):
            yield from ((*path, name) for name in form.get("required") or () if name not in each)


def not_among(value: Any, schema: Schema) -> Iterator[tuple[Path, list[str]]]:
    """Yields path and permitted values of the parts of a value that are none of these."""
    for each, form, path in _parts(value, schema):
        values = form.get("enum")
        if values and isinstance(each, str) and each not in values:
            yield path, [str(one) for one in values]


def _parts(value: Any, schema: Schema, path: Path = ()) -> Iterator[tuple[Any, Schema, Path]]:
    """Yields a value and all its parts, each with its schema ({} if unknown) and path."""
    schema = resolved(schema)
    yield value, schema, path
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _parts(each, schema.get("items") or {}, (*path, index))
    elif isinstance(value, dict):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in value.items():
            inner = known.get(name) or (more if isinstance(more, dict) else {})
            yield from _parts(each, inner, (*path, name))


def spelled(path: Path) -> str:
    """Formats a path: `spec.template.spec.containers[0].image`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _expected(schema: Schema) -> list[str]:
    if "oneOf" in schema:
        return [name for each in schema["oneOf"] for name in _expected(each)]
    found = schema.get("type") or []
    return [name for name in ([found] if isinstance(found, str) else found) if name != "null"]


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _name_of(value: Any) -> str:
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


@cache
def _folder() -> Folder:
    # Located without an import: its code needs more packages than its data.
    found = find_spec("kubernetes_validate")
    if found is None or not found.submodule_search_locations:
        raise SchemasMissing
    return Folder(found.submodule_search_locations[0], _ROOT)
