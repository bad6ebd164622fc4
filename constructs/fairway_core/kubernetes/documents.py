"""Objects of Kubernetes as the text that kubectl and Flux take."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Iterable

Manifest = dict[str, Any]


def manifest(version: str, kind: str, name: str, namespace: str = "") -> Manifest:
    """The beginning of every object; without `namespace` for one that the whole cluster shares."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where}}


def text(objects: Iterable[Manifest]) -> str:
    """The objects as YAML, a document each."""
    buffer = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.representer.ignore_aliases = lambda _: True
    writer.explicit_start = True
    writer.dump_all(list(objects), buffer)
    return buffer.getvalue()
