"""Flux objects: the order in which it applies folders, and its sources and releases.

The order: https://fluxcd.io/flux/components/kustomize/kustomizations/#dependencies
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.kubernetes.documents import Manifest, manifest, text
from fairway_core.kubernetes.pools import ON_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMESPACE = "fairway-flux"
"""The namespace of Flux's objects. AKS' extension does not let them refer to another namespace.

Source: Azure documentation, GitOps Flux v2 configurations, multi-tenancy."""
_ACCOUNT = "flux-applier"  # created there by the extension, for a cluster configuration
# Folders that need kinds of objects, or a namespace, from other folders.
_AFTER = {"queues": ("jobs", "kueue"), "devices": ("drivers",)}
_SOURCES = "source.toolkit.fluxcd.io/v1"
_RETRIES = {"remediation": {"retries": 3}}


def kustomizations(paths: Iterable[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Returns name, path and dependencies of each folder with manifests.

    >>> kustomizations(["queues/queues.yaml", "kueue/kueue.yaml", "jobs/head.yaml"])
    [('jobs', './jobs', ()), ('kueue', './kueue', ()), ('queues', './queues', ('jobs', 'kueue'))]
    """
    folders = sorted({path.partition("/")[0] for path in paths})
    return [
        (name, f"./{name}", tuple(each for each in _AFTER.get(name, ()) if each in folders))
        for name in folders
    ]


def chart_repository(name: str, url: str) -> Manifest:
    """Returns a source of Helm charts; its type follows from the address."""
    spec = {"interval": "24h", "url": url}
    if url.startswith("oci://"):
        spec["type"] = "oci"
    return manifest(_SOURCES, "HelmRepository", name, NAMESPACE, spec=spec)


def release(
    name: str,
    repository: str,
    version: str,
    values: dict[str, Any],
    *,
    namespace: str,
    after: tuple[str, ...] = (),
) -> Manifest:
    """Returns a release of a chart's exact version; `after` are releases that it waits for."""
    source = {"kind": "HelmRepository", "name": repository}
    spec: dict[str, Any] = {
        "interval": "1h",
        "timeout": "20m",
        "releaseName": name,
        "targetNamespace": namespace,
        "storageNamespace": namespace,
        "serviceAccountName": _ACCOUNT,
        "chart": {"spec": {"chart": name, "version": version, "sourceRef": source}},
        "install": {"crds": "CreateReplace", **_RETRIES},
        "upgrade": {"crds": "CreateReplace", **_RETRIES},
        "values": values,
    }
    if after:
        spec["dependsOn"] = [{"name": each} for each in after]
    return manifest("helm.toolkit.fluxcd.io/v2", "HelmRelease", name, NAMESPACE, spec=spec)


def repository_files(
    name: str, url: str, tag: str, folder: str, ignored: tuple[str, ...], deployment: str
) -> list[Manifest]:
    """Returns objects that apply a folder of a git repository at a tag; pods of its `deployment`
    may run on system nodes."""
    spec = {"template": {"spec": {"tolerations": ON_SYSTEM}}}
    tolerating = manifest("apps/v1", "Deployment", deployment, spec=spec)
    # In the syntax of .gitignore: ignores all but the folder.
    lines = ["/*", f"!/{folder}", *(f"/{folder}/{each}" for each in ignored)]
    source = {"interval": "24h", "url": url, "ref": {"tag": tag}, "ignore": "\n".join(lines) + "\n"}
    applied = {
        "interval": "1h",
        "timeout": "30m",
        "path": f"./{folder}",
        "prune": True,
        "serviceAccountName": _ACCOUNT,
        "sourceRef": {"kind": "GitRepository", "name": name},
        "patches": [{"patch": text([tolerating])}],
    }
    version = "kustomize.toolkit.fluxcd.io/v1"
    return [
        manifest(_SOURCES, "GitRepository", name, NAMESPACE, spec=source),
        manifest(version, "Kustomization", name, NAMESPACE, spec=applied),
    ]
