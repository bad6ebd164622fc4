"""The set-up of nodes of jobs: tasks' scratch on local NVMe disks, and how far NFS reads ahead.

AKS hands the disks over raw, and its volumes of NFS have no option for it. One pod on each node
does both, as root of the node, and then stays without rights, to remove the scratch of pods that
are gone. It has no token, and a namespace in which only administrators make pods.
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
"""The folder of nodes in which each pod of a task has one of its own."""
_NAME = "node-setup"
_SET_UP, _CLEAN_UP = "set-up.sh", "clean-up.sh"
_SCRIPTS = "/scripts"
# Among the mounts of the node's first process, with the node's own programs. By its file and not
# its number: a pod that sees the node's processes has all containers see them.
_PROC = "/node/proc"
_ON_NODE = f"exec nsenter --mount={_PROC}/1/ns/mnt -- bash -s <{_SCRIPTS}/{_SET_UP}"
_SMALL = {"cpu": "10m", "memory": "32Mi"}


def objects(targets: Sequence[Target]) -> list[Manifest]:
    """Returns the namespace, the scripts and the DaemonSet for nodes of the targets."""
    scripts = {_SET_UP: set_up_script(), _CLEAN_UP: _text("node_cleanup.sh")}
    labels = {"app": _NAME}
    # Pods that have the scripts of before are replaced.
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
        {**manifest("v1", "ConfigMap", _NAME, NAMESPACE), "data": scripts},
        {**manifest("apps/v1", "DaemonSet", _NAME, NAMESPACE), "spec": spec},
    ]


def set_up_script() -> str:
    """Returns the program that sets up a node."""
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
        # To mount, and to open disks.
        "securityContext": {"privileged": True},
        "volumeMounts": [scripts, {"name": "proc", "mountPath": _PROC, "readOnly": True}],
    }
    clean_up = {
        "name": "clean-up",
        "image": access.head_image,
        "command": ["bash", f"{_SCRIPTS}/{_CLEAN_UP}"],
        "resources": {"requests": dict(_SMALL), "limits": {"memory": "128Mi"}},
        # To remove the files of any user, and nothing else.
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
        # Tasks wait for it, and may not take its place.
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "affinity": _nodes_of(targets),
        "tolerations": tolerations(targets),
        "initContainers": [set_up],
        "containers": [clean_up],
        "volumes": [
            {"name": "scripts", "configMap": {"name": _NAME}},
            {"name": "proc", "hostPath": {"path": "/proc", "type": "Directory"}},
            # Of no type: else there would be a folder before there are disks, and tasks begin.
            {"name": "scratch", "hostPath": {"path": SCRATCH}},
        ],
    }


def _nodes_of(targets: Sequence[Target]) -> dict[str, Any]:
    """Returns nodes of any of the targets, and no others, such as those of the system."""
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]}
                for key, value in access_of(target).selector.items()
            ]
        }
        for target in targets
    ]
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {kind: {"nodeSelectorTerms": terms}}}
