"""Kubernetes objects as YAML text for kubectl and Flux, and a parser for that text."""

from __future__ import annotations

import re
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import SafeRepresenter


Manifest = dict[str, Any]

# Readers of the text use YAML 1.1, in which `on` and `no` are booleans and 1:30 is a number.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9._/-]*(:[A-Za-z0-9._/-]+)*")
_NO_TEXT = frozenset({"y", "yes", "n", "no", "on", "off", "true", "false", "null"})


def manifest(version: str, kind: str, name: str, namespace: str = "", **fields: object) -> Manifest:
    """Returns an object with these fields, such as `spec`; a cluster-scoped one has no
    `namespace`."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where}, **fields}


def privileged_namespace(name: str) -> Manifest:
    """Returns a namespace that allows privileged pods, which drivers need."""
    found = manifest("v1", "Namespace", name)
    found["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "privileged"}
    return found


def text(objects: Iterable[Manifest]) -> str:
    """Returns the objects as YAML, one document each.

    >>> print(text([{"kind": "Example", "answer": "no"}]), end="")
    ---
    kind: Example
    answer: "no"
    """
    buffer = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 10_000
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.representer.ignore_aliases = lambda _: True
    writer.representer.add_representer(str, _represent)
    writer.explicit_start = True
    writer.dump_all(list(objects), buffer)
    return buffer.getvalue()


def _represent(representer: SafeRepresenter, value: str) -> ScalarNode:
    if "\n" in value:
        style = "|"
    else:
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NO_TEXT
        style = "" if is_plain else '"'
    node: ScalarNode = representer.represent_scalar("tag:yaml.org,2002:str", value, style=style)
    return node


# Far more than Fairway writes into one file; deeper nesting would take minutes to parse.
_LONGEST = 1 << 20
_DEEPEST = 64


@lru_cache(maxsize=64)
def objects_of(text: str) -> dict[str, Any] | None:
    """Returns the objects of manifests by kind, namespace and name, or None for any other text. The
    result is cached and shared between callers.

    >>> objects_of("kind: Namespace\\nmetadata: {name: training}")
    {'Namespace training': {'kind': 'Namespace', 'metadata': {'name': 'training'}}}
    """
    if len(text) > _LONGEST or "kind:" not in text:
        return None
    reader = YAML(typ="safe", pure=True)
    reader.Composer = _PlainComposer
    reader.max_depth = _DEEPEST
    try:
        found = list(reader.load_all(text))
    except (YAMLError, ValueError):
        return None
    named = {_name(each): each for each in found}
    return named if "" not in named and len(named) == len(found) else None


class _PlainComposer(Composer):
    """A composer that refuses aliases: they may expand without end, and Fairway writes none."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.parser.check_event(AliasEvent):
            raise ComposerError(problem="an alias")
        return super().compose_node(parent, index)


def _name(found: Any) -> str:
    """Returns `Kind name` or `Kind namespace/name`, or "" for anything but a Kubernetes object."""
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict):
        return ""
    kind, name, space = found.get("kind"), metadata.get("name"), metadata.get("namespace", "")
    if not all(isinstance(each, str) for each in (kind, name, space)) or not name:
        return ""
    return f"{kind} {space}/{name}" if space else f"{kind} {name}"
