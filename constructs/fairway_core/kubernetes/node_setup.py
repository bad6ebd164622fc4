"""Setup of jobs' nodes: tasks' scratch on local NVMe disks, and NFS read-ahead.

AKS leaves the disks raw, and its NFS volumes have no option for read-ahead. One pod on each node
does both, as root of the node, and then stays without privileges, to remove the scratch of deleted
pods. It has no token, and is in a namespace in which only administrators create pods.
https://learn.microsoft.com/azure/aks/best-practices-storage-nvme
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core import local_disks
from fairway_core.kubernetes.documents import Manifest, manifest, privileged_namespace
from fairway_core.kubernetes.pools import access_of, tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target

NAMESPACE = "fairway-nodes"
SCRATCH = f"{local_disks.FOLDER}/fairway"
"""The folder of nodes in which each pod of a task has its own."""
_NAME = "node-setup"
_SET_UP, _CLEAN_UP = "set-up.sh", "clean-up.sh"
_SCRIPTS = "/scripts"
# In the mount namespace of the node's first process, with the node's programs. The namespace is
# opened by its file: a pod that shares the node's process ids shares them with all its containers.
_PROC = "/node/proc"
_ON_NODE = f"exec nsenter --mount={_PROC}/1/ns/mnt -- bash -s <{_SCRIPTS}/{_SET_UP}"
_SMALL = {"cpu": "10m", "memory": "32Mi"}


def objects(targets: Sequence[Target]) -> list[Manifest]:
    """Returns the namespace, the scripts and the DaemonSet for the targets' nodes."""
    scripts = {_SET_UP: set_up_script(), _CLEAN_UP: _text("node_cleanup.sh")}
    labels = {"app": _NAME}
    # A changed script replaces the pods.
    mark = hashlib.sha256("".join(scripts.values()).encode()).hexdigest()[:12]
    spec = {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {
            "metadata": {"labels": dict(labels), "annotations": {"fairway.dev/scripts": mark}},
            "spec": _pod(targets),
        },
    }
    return [
        privileged_namespace(NAMESPACE),
        manifest("v1", "ConfigMap", _NAME, NAMESPACE, data=scripts),
        manifest("apps/v1", "DaemonSet", _NAME, NAMESPACE, spec=spec),
    ]


def set_up_script() -> str:
    """Returns the script that sets up a node."""
    return local_disks.with_local_disks(_text("node_setup.sh"))


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _pod(targets: Sequence[Target]) -> dict[str, Any]:
    access = access_of(targets[0])
    scripts = {"name": "scripts", "mountPath": _SCRIPTS, "readOnly": True}
    set_up = {
        "name": "set-up",
        "image": access.head_image,
        "command": ["bash", "-c", _ON_NODE],
        "resources": {"requests": _SMALL, "limits": {"memory": "512Mi"}},
        # To mount, and to access disks.
        "securityContext": {"privileged": True},
        "volumeMounts": [scripts, {"name": "proc", "mountPath": _PROC, "readOnly": True}],
    }
    clean_up = {
        "name": "clean-up",
        "image": access.head_image,
        "command": ["bash", f"{_SCRIPTS}/{_CLEAN_UP}"],
        "resources": {"requests": dict(_SMALL), "limits": {"memory": "128Mi"}},
        # Only to remove the files of any user.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [scripts, {"name": "scratch", "mountPath": "/scratch"}],
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Tasks wait for this pod, and must not preempt it.
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "affinity": _nodes_of(targets),
        "tolerations": tolerations(targets),
        "initContainers": [set_up],
        "containers": [clean_up],
        "volumes": [
            {"name": "scripts", "configMap": {"name": _NAME}},
            {"name": "proc", "hostPath": {"path": "/proc", "type": "Directory"}},
            # Without a type: else the folder would exist before its disks, and tasks would start.
            {"name": "scratch", "hostPath": {"path": SCRATCH}},
        ],
    }


def _nodes_of(targets: Sequence[Target]) -> dict[str, Any]:
    """Returns an affinity to the targets' nodes, which excludes others, such as system nodes."""
    terms = []
    for target in targets:
        labels = access_of(target).selector.items()
        rules = [{"key": key, "operator": "In", "values": [value]} for key, value in labels]
        terms.append({"matchExpressions": rules})
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {kind: {"nodeSelectorTerms": terms}}}
