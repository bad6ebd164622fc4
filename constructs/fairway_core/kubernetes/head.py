"""The head pod that a namespace needs before jobs run in it, and its permissions."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fairway_agent.kubernetes.manifests import topology_map
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.kubernetes.pools import access_of, topology_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target

RBAC = "rbac.authorization.k8s.io"
_KUEUE = "kueue.x-k8s.io"

# The head only waits: each request brings the program that it runs.
_WAIT = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"

_RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get"]},
    {"apiGroups": [_KUEUE], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]},
]
_RULES_EVERYWHERE = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {
        "apiGroups": [_KUEUE],
        "resources": ["clusterqueues", "workloadpriorityclasses"],
        "verbs": ["get"],
    },
]


def rights(target: Target) -> dict[str, bool]:
    """Returns the permissions of the head's account for `kubectl auth can-i`: True for all
    namespaces, False for its own. Kueue's objects are included if the target has a queue."""
    access = access_of(target)
    return {
        f"{verb} {'.'.join(filter(None, (resource, group)))}": everywhere
        for everywhere, rules in ((False, _RULES), (True, _RULES_EVERYWHERE))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if access.queue or group != _KUEUE
    }


def objects(target: Target, *, client_id: str = "") -> list[Manifest]:
    """Returns the head pod's Deployment, its account and that of tasks, which has no permissions,
    and the head's permissions: in the namespace, to read and drain nodes, and to read quotas.

    With `client_id` tasks act as that Azure identity, if AKS' workload identity is enabled.
    """
    access = access_of(target)
    space, head, version = access.namespace, access.head, f"{RBAC}/v1"
    # Cluster-scoped objects are named after the namespace: another may have its own head.
    everywhere = f"{space}-{head}"
    of_tasks = manifest("v1", "ServiceAccount", access.service_account, space)
    if client_id:
        of_tasks["metadata"]["annotations"] = {"azure.workload.identity/client-id": client_id}
    return [
        manifest("v1", "ServiceAccount", head, space),
        {**of_tasks, "automountServiceAccountToken": False},
        manifest(version, "Role", head, space, rules=_RULES),
        binding("RoleBinding", head, space, head, "Role", head),
        manifest(version, "ClusterRole", everywhere, rules=_RULES_EVERYWHERE),
        binding("ClusterRoleBinding", everywhere, space, head, "ClusterRole", everywhere),
        manifest("apps/v1", "Deployment", head, space, spec=_deployment(target)),
    ]


def topologies(targets: Sequence[Target]) -> list[Manifest]:
    """Returns a ConfigMap with NCCL's topology file for each type of node that has one."""
    access = access_of(targets[0])
    found = {each.path: each for target in targets if (each := topology_of(target)) is not None}
    objects = []
    for path, topology in found.items():
        data = {PurePosixPath(path).name: topology.xml()}
        objects.append(manifest("v1", "ConfigMap", topology_map(path), access.namespace, data=data))
    return objects


def binding(
    kind: str, name: str, namespace: str, account: str, role_kind: str, role: str
) -> Manifest:
    """Returns a role binding of an account; a ClusterRoleBinding applies in all namespaces."""
    where = namespace if kind == "RoleBinding" else ""
    to = {"apiGroup": RBAC, "kind": role_kind, "name": role}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    return manifest(f"{RBAC}/v1", kind, name, where, roleRef=to, subjects=subjects)


def _deployment(target: Target) -> Manifest:
    access = access_of(target)
    labels = {"app": access.head}
    mounts = [{"name": name, "mountPath": target.mounts[name]} for name in access.volumes]
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in access.volumes.items()
    ]
    container = {
        "name": "head",
        "image": access.head_image,
        "command": ["sh", "-c", _WAIT],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": mounts,
    }
    spec = {
        "serviceAccountName": access.head,
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": claims,
    }
    if access.head_tolerations:
        keys = access.head_tolerations
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in keys]
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
    }
