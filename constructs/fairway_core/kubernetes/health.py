"""Health checks on nodes with GPUs or InfiniBand, by the same program as on Slurm's nodes.

AKS' own GPU checks exclude nodes without its driver, such as these:
https://learn.microsoft.com/azure/aks/gpu-health-monitoring
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.api import BOOT, CORDONED, HELD, KEPT, MACHINE
from fairway_core.archives import module_files
from fairway_core.kubernetes.admission import node_policy
from fairway_core.kubernetes.documents import Manifest, manifest, privileged_namespace
from fairway_core.kubernetes.head import RBAC, binding
from fairway_core.kubernetes.pools import (
    GPUS,
    access_of,
    has_nvidia,
    offers_infiniband,
    size_of,
    tolerations,
)
from fairway_core.slurm.scripts import NodeFacts, health_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target

NAMESPACE = "fairway-health"
_NAME = "fairway-health"  # of the account, its role and the program
_PROGRAM = "fairway_agent.kubernetes.node_health"
_MODULES = (
    "fairway_agent/kubernetes/api",
    _PROGRAM.replace(".", "/"),
    *("fairway_boot/files", "fairway_boot/http", "fairway_boot/imds"),
)
_FOLDER = "/opt/fairway"
# The operator's driver has its own root on the node. Source: NVIDIA/gpu-operator, whose validator
# starts nvidia-smi in the same way.
_SMI = '#!/bin/sh\nexec chroot /run/nvidia/driver nvidia-smi "$@"\n'
_EVERY = "300"  # seconds, as for Slurm
_NODE_CLAIM = "authentication.kubernetes.io/node-name"


def objects(targets: Sequence[Target]) -> list[Manifest]:
    """Returns a DaemonSet for each pool with devices to check, its program, and its permissions,
    which are limited to its own node; nothing if no pool has any."""
    facts = {each.name: _facts(each) for each in targets}
    checked = [each for each in targets if facts[each.name] != _NOTHING]
    if not checked:
        return []
    files = {path.replace("/", "."): text for path, text in module_files(_MODULES).items()}
    files["nvidia-smi"] = _SMI
    files |= {_check_of(each): health_check(facts[each.name]) for each in checked}
    text = "".join(f"{name}\0{files[name]}\0" for name in sorted(files))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return [
        privileged_namespace(NAMESPACE),
        *_rights(),
        manifest("v1", "ConfigMap", _NAME, NAMESPACE, data=files),
        *(_daemon_set(each, facts[each.name], digest) for each in checked),
    ]


_NOTHING = NodeFacts(folders=())


def _facts(target: Target) -> NodeFacts:
    """Returns the devices that the pool's nodes offer to pods, and so must have. Mounts belong to
    pods, and the kubelet watches the disks."""
    size = size_of(target)
    if size is None:
        return _NOTHING
    found = replace(NodeFacts.of(size), folders=())
    if not has_nvidia(target):
        found = replace(found, gpus=0, vendor="nvidia", nvlink=False)
    return found if offers_infiniband(target) else replace(found, adapters=0, adapter_gbps=0)


def _check_of(target: Target) -> str:
    return f"health-check-{target.name}"


def _rights() -> list[Manifest]:
    """Returns a role for all nodes, and a policy that limits it to the node of the token's pod: a
    compromised node cannot affect others, or attract pods by labels."""
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    # Source: Kubernetes, test/e2e/auth/e2edata/per_node_validatingadmissionpolicy.yaml.
    claim = f'request.userInfo.extra["{_NODE_CLAIM}"]'
    own = (
        f'has(request.userInfo.extra) && "{_NODE_CLAIM}" in request.userInfo.extra'
        f" && object.metadata.name == {claim}[0]"
    )
    alone = {"only the node on which it runs": own}
    return [
        manifest("v1", "ServiceAccount", _NAME, NAMESPACE),
        manifest(f"{RBAC}/v1", "ClusterRole", _NAME, rules=rules),
        binding("ClusterRoleBinding", _NAME, NAMESPACE, _NAME, "ClusterRole", _NAME),
        *node_policy(_NAME, NAMESPACE, _NAME, (CORDONED, BOOT, HELD, KEPT, MACHINE), alone),
    ]


def _daemon_set(target: Target, facts: NodeFacts, digest: str) -> Manifest:
    access = access_of(target)
    offers = [GPUS] * bool(facts.gpus) + [access.rdma] * bool(facts.adapters)
    command = ["python3", "-m", _PROGRAM, "--every", _EVERY]
    command += [f"--offers={each}" for each in offers]
    container = {
        "name": "health",
        "image": access.head_image,
        "command": [*command, "--", "bash", f"{_FOLDER}/health-check", "--before"],
        "env": [
            {"name": "FAIRWAY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "FAIRWAY_PATH", "value": f"{_FOLDER}/bin"},
            {"name": "PYTHONPATH", "value": _FOLDER},
        ],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        # For the driver's devices, and the kernel's log.
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "program", "mountPath": _FOLDER, "readOnly": True},
            *(
                {"name": name, "mountPath": path, "readOnly": True, **more}
                for name, (path, more) in _FOLDERS.items()
            ),
        ],
    }
    items = [{"key": path.replace("/", "."), "path": path} for path in module_files(_MODULES)]
    items += [
        {"key": _check_of(target), "path": "health-check"},
        {"key": "nvidia-smi", "path": "bin/nvidia-smi"},
    ]
    spec = {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        # InfiniBand devices and the metadata service belong to the node's network.
        "hostNetwork": True,
        "nodeSelector": dict(access.selector),
        "tolerations": tolerations([target]),
        "containers": [container],
        "volumes": [
            {"name": "program", "configMap": {"name": _NAME, "defaultMode": 0o755, "items": items}},
            *(
                {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
                for name, (path, _) in _FOLDERS.items()
            ),
        ],
    }
    labels = {"app.kubernetes.io/name": _NAME, "fairway.dev/pool": target.name}
    # A changed program replaces the pod.
    about = {"labels": labels, "annotations": {"fairway.dev/program": digest}}
    daemon_spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": about, "spec": spec},
    }
    return manifest("apps/v1", "DaemonSet", f"{_NAME}-{target.name}", NAMESPACE, spec=daemon_spec)


# Folders of the node: the driver's root, mounted after the pod starts, and Hyper-V's data.
_FOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "nvidia": ("/run/nvidia", {"mountPropagation": "HostToContainer"}),
    "hyperv": ("/var/lib/hyperv", {}),
}
