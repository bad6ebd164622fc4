"""The nodes of a cluster: they register with any API server and run the pods bound to them."""

from __future__ import annotations

import os
import platform
import sys
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core import local_disks
from fairway_core.kubernetes.node_setup import SCRATCH
from fairway_simulator.kubernetes.api.patches import MERGE
from fairway_simulator.kubernetes.client import Client, ErrorResponse
from fairway_simulator.kubernetes.events import now
from fairway_simulator.kubernetes.kubelet.host import GPU, PAUSE, Devices, Host
from fairway_simulator.kubernetes.kubelet.pods import PodRunner
from fairway_simulator.kubernetes.kubelet.serving import NodeServer
from fairway_simulator.kubernetes.kubelet.volumes import of_image

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from fairway_simulator.kubernetes.kubelet.host import Network

_IMAGES = ("sim*", "python*", "*/sim/*", "fairway*")


@dataclass(frozen=True)
class NodeSpec:
    """Specification of a node: its name, resources, labels and taints; `nvme` is True if the node
    has local disks, mounted as by the DaemonSet of an environment."""

    name: str
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    nvme: bool = False


class Kubelet:
    """All nodes in one: a client with a single watch for them.

    The API server authenticates with the `token`, or with a certificate that `tls` demands.
    """

    def __init__(
        self,
        client: Client,
        folder: Path,
        nodes: Sequence[NodeSpec],
        network: Network,
        *,
        token: str = "",
        images: Sequence[str] = _IMAGES,
        restart_pause: float = 10.0,
        api: tuple[str, int] | None = None,
        path: str = "",
        exports: Mapping[str, Path] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, port = api or (client.host, client.port)
        self._client = client
        self._nodes = {each.name: each for each in nodes}
        self._network = network
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, PodRunner] = {}
        self._server = NodeServer(self.pod, token, self._stopped, tls)
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
        if path:
            environment["PATH"] = f"{path}:{of_image()['PATH']}"
        self._host = Host(
            client,
            folder,
            network,
            environment,
            images,
            "127.0.0.1",
            restart_pause,
            self._stopped,
            Devices(folder / "devices", self._gpus),
            exports or {},
            self.disks,
        )
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def start(self) -> None:
        self._server.start()
        for node in self._nodes.values():
            self.register(node)
        self._thread.start()

    def stop(self) -> None:
        """Kills all pods at once, without a report to the API server."""
        self._stopped.set()
        with self._lock:
            pods = list(self._pods.values())
        for pod in pods:
            pod.lose()
        for pod in pods:
            pod.join()
        self._server.stop()
        self._network.close()

    def register(self, spec: NodeSpec) -> None:
        """Creates a node, ready for pods, or updates an existing one's resources and taints."""
        self._nodes[spec.name] = spec
        if disks := self.disks(spec.name):
            scratch = disks / Path(SCRATCH).relative_to(local_disks.FOLDER)
            scratch.mkdir(parents=True, exist_ok=True)
            scratch.chmod(0o1777)
        node = _node(spec, self._server.port)
        if self._server.is_secure:  # a real API server, which translates streams for older nodes
            node["status"]["declaredFeatures"] = ["ExtendWebSocketsToKubelet"]
        try:
            self._client.send("POST", "/api/v1/nodes", node)
        except ErrorResponse as refused:
            if refused.code != 409:
                raise
        path = f"/api/v1/nodes/{spec.name}"
        self._host.send("PATCH", f"{path}/status", {"status": node["status"]}, MERGE)
        # Admission taints new nodes, and without controllers nothing would remove the taint.
        taints = [dict(each) for each in spec.taints]
        self._host.send("PATCH", path, {"spec": {"taints": taints or None}}, MERGE)

    def pod(self, namespace: str, name: str) -> PodRunner | None:
        with self._lock:
            for pod in reversed(self._pods.values()):
                metadata = pod.pod["metadata"]
                if (metadata["namespace"], metadata["name"]) == (namespace, name):
                    return pod
        return None

    def disks(self, node: str) -> Path | None:
        """Returns the folder that stands for a node's local disks, or None if it has none."""
        spec = self._nodes.get(node)
        return self._host.folder / "disks" / node if spec and spec.nvme else None

    def _gpus(self, node: str) -> int:
        spec = self._nodes.get(node)
        return int(spec.resources.get(GPU, "0")) if spec else 0

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except ErrorResponse:
                self._stopped.wait(PAUSE)
            except Exception:  # noqa: BLE001 - the nodes keep running
                sys.stderr.write(traceback.format_exc())
                self._stopped.wait(PAUSE)

    def _follow(self) -> None:
        found = self._client.get("/api/v1/pods")
        version = found["metadata"]["resourceVersion"]
        there = {pod["metadata"]["uid"] for pod in found["items"]}
        with self._lock:
            gone = [pod for uid, pod in self._pods.items() if uid not in there]
        for runner in gone:
            self._drop(runner.pod)
        for pod in found["items"]:
            self._see(pod)
        path = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
        for kind, pod in self._client.watch(path):
            if self._stopped.is_set():
                return
            if kind in ("ADDED", "MODIFIED"):
                self._see(pod)
            elif kind == "DELETED":
                self._drop(pod)
            elif kind == "ERROR":
                return

    def _see(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        if pod["spec"].get("nodeName") not in self._nodes:
            return
        with self._lock:
            known = self._pods.get(metadata["uid"])
            ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if known is None:
                if ended:
                    return
                known = self._pods[metadata["uid"]] = PodRunner(pod, self._host)
                if "deletionTimestamp" in metadata:
                    known.end(0)
                known.start()
                return
        if "deletionTimestamp" in metadata:
            known.end(float(metadata.get("deletionGracePeriodSeconds") or 0))

    def _drop(self, pod: dict[str, Any]) -> None:
        with self._lock:
            known = self._pods.pop(pod["metadata"]["uid"], None)
        if known is not None:
            known.lose()


def _node(spec: NodeSpec, port: int) -> dict[str, Any]:
    resources = {
        "cpu": str(os.cpu_count() or 1),
        "memory": "64Gi",
        "ephemeral-storage": "64Gi",
        "pods": "110",
        **spec.resources,
    }
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **spec.labels,
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now(),
        "lastTransitionTime": now(),
    }
    return {
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"taints": [dict(each) for each in spec.taints]} if spec.taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": _info(),
        },
    }


def _info() -> dict[str, str]:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "stand-in://1",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.37.0-stand-in",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": platform.platform(),
        "systemUUID": "",
    }
