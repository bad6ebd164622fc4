"""Manifests of Kubernetes in a plan: they are one long text there, and objects to a reader."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

# Far more than Fairway writes into one file.
_LONGEST = 1 << 20
_DEEPEST = 64


def objects_of(text: str) -> dict[str, Any] | None:
    """The objects of manifests by kind, namespace and name; None for any other text.

    >>> objects_of("kind: Namespace\\nmetadata: {name: training}")
    {'Namespace training': {'kind': 'Namespace', 'metadata': {'name': 'training'}}}
    """
    if len(text) > _LONGEST or "kind:" not in text:
        return None
    try:
        if not _is_plain(text):
            return None
        found = list(YAML(typ="safe", pure=True).load_all(text))
    except (YAMLError, ValueError):
        return None
    named = {_name(each): each for each in found}
    return named if "" not in named and len(named) == len(found) else None


def _is_plain(text: str) -> bool:
    """Whether nothing in it refers to another part, which may have no end, or is nested so deep
    that it would take minutes to read; Fairway writes neither."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if isinstance(event, AliasEvent) or depth > _DEEPEST:
            return False
    return True


def _name(found: Any) -> str:
    """`Kind name` or `Kind namespace/name`; "" for what is no object of Kubernetes."""
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict):
        return ""
    kind, name, space = found.get("kind"), metadata.get("name"), metadata.get("namespace", "")
    if not all(isinstance(each, str) for each in (kind, name, space)) or not name:
        return ""
    return f"{kind} {space}/{name}" if space else f"{kind} {name}"
