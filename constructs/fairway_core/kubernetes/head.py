"""The head pod that a namespace needs before jobs run in it, and the rights of the pod."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fairway_agent.kubernetes.manifests import topology_map
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.kubernetes.pools import access_of, topology_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import KubernetesAccess, Target

RBAC = "rbac.authorization.k8s.io"
_KUEUE = "kueue.x-k8s.io"

# It waits to be asked: what it does comes with each request.
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
    """Returns rights of the head's account in `kubectl auth can-i`'s words, each True for all
    namespaces or False for its own alone; with Kueue's objects where the target has a queue of
    Kueue's."""
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
    """Returns the head pod's Deployment, its account and that of tasks, which has no rights, and
    the head's rights: in the namespace, to see and to drain nodes, and to see quotas.

    With `client_id` tasks are that identity of Azure's, where AKS' workload identity is on.
    """
    access = access_of(target)
    space, head = access.namespace, access.head
    # What is no namespace's own is named after it: another may have a head of its own.
    everywhere = f"{space}-{head}"
    return [
        manifest("v1", "ServiceAccount", head, space),
        _account_of_tasks(access, client_id),
        {**manifest(f"{RBAC}/v1", "Role", head, space), "rules": _RULES},
        binding("RoleBinding", head, space, head, "Role", head),
        {**manifest(f"{RBAC}/v1", "ClusterRole", everywhere), "rules": _RULES_EVERYWHERE},
        binding("ClusterRoleBinding", everywhere, space, head, "ClusterRole", everywhere),
        {**manifest("apps/v1", "Deployment", head, space), "spec": _deployment(target)},
    ]


def topologies(targets: Sequence[Target]) -> list[Manifest]:
    """Returns a ConfigMap with NCCL's topology file for each kind of nodes of the targets that has
    one."""
    access = access_of(targets[0])
    found = {each.path: each for target in targets if (each := topology_of(target)) is not None}
    return [
        {
            **manifest("v1", "ConfigMap", topology_map(path), access.namespace),
            "data": {PurePosixPath(path).name: topology.xml()},
        }
        for path, topology in found.items()
    ]


def _account_of_tasks(access: KubernetesAccess, client_id: str) -> Manifest:
    found = manifest("v1", "ServiceAccount", access.service_account, access.namespace)
    if client_id:
        found["metadata"]["annotations"] = {"azure.workload.identity/client-id": client_id}
    return {**found, "automountServiceAccountToken": False}


def binding(
    kind: str, name: str, namespace: str, account: str, role_kind: str, role: str
) -> Manifest:
    """Returns a role that an account of the namespace has: in it, or by a ClusterRoleBinding
    everywhere."""
    where = namespace if kind == "RoleBinding" else ""
    return {
        **manifest(f"{RBAC}/v1", kind, name, where),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


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
