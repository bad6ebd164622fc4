"""A kubeconfig: where a cluster is, and as whom one comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def text(name: str, url: str, authority: Path, token: str, namespace: str) -> str:
    """The file's text: JSON is YAML too."""
    cluster = {"server": url, "certificate-authority": str(authority)}
    context = {"cluster": name, "user": name, "namespace": namespace}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": context}],
        },
        indent=1,
    )
