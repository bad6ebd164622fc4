"""The complete cluster: `with KubernetesCluster(folder) as cluster:`."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.certificate import serve_as_localhost
from fairway_simulator.command import write_private
from fairway_simulator.http import Server
from fairway_simulator.kubernetes.api.resources import (
    BUILT_IN,
    CLAIMS,
    CLUSTER_QUEUES,
    FLAVORS,
    KUEUE,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PROVISIONING_REQUESTS,
)
from fairway_simulator.kubernetes.api.service import OWN, ApiService
from fairway_simulator.kubernetes.client import Client
from fairway_simulator.kubernetes.controllers.autoscaler import Autoscaler, Pool
from fairway_simulator.kubernetes.controllers.collector import Collector
from fairway_simulator.kubernetes.controllers.jobs import BACKOFF, Deployments, Jobs
from fairway_simulator.kubernetes.controllers.kueue import Kueue, Provisioning
from fairway_simulator.kubernetes.controllers.loop import Controller, Loop
from fairway_simulator.kubernetes.controllers.namespaces import Accounts, Claims
from fairway_simulator.kubernetes.controllers.scheduler import Scheduler
from fairway_simulator.kubernetes.kubelet.host import Network, network
from fairway_simulator.kubernetes.kubelet.kubelet import Kubelet, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fairway_simulator.faults import Faults
    from fairway_simulator.kubernetes.api.resources import Resource


def kubeconfig_text(name: str, url: str, authority: Path, token: str, namespace: str) -> str:
    """Returns the kubeconfig as JSON, which is YAML too."""
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


_RESOURCES = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "rdma/ib": "8"}
_PATIENCE = 300.0  # seconds; only a hang takes that long
CONTEXT = "kubernetes-sim"


def default_nodes(count: int) -> list[NodeSpec]:
    """Returns nodes of one pool, each with eight GPUs and eight InfiniBand adapters."""
    labels = {"agentpool": "sim", "kubernetes.azure.com/agentpool": "sim"}
    return [NodeSpec(f"sim-{number}", _RESOURCES, labels) for number in range(count)]


@dataclass
class KubernetesCluster:
    """A context manager with an API server on loopback, its controllers, and nodes that run pods.

    `nodes` is the number of nodes in one pool, or their specifications; an autoscaler with this
    `clock` manages `pools`. `namespace` exists from the start. `kueue` adds Kueue, without a queue.
    `images` are patterns of the image names that nodes can pull. `backoff` and `restart_pause` are
    the seconds before failed pods are replaced and containers restarted. `private` gives each pod
    its own network if this process is root. `path` comes first in every container's PATH. `exports`
    maps `server:path` of NFS servers to folders.

    >>> with KubernetesCluster(folder) as cluster:  # doctest: +SKIP
    ...     cluster.kubectl("get", "nodes")
    """

    folder: Path
    nodes: int | Sequence[NodeSpec] = 3
    pools: Sequence[Pool] = ()
    clock: Callable[[], float] = time.time
    namespace: str = "default"
    kueue: bool = False
    images: Sequence[str] = ("sim*",)
    backoff: float = BACKOFF
    restart_pause: float = 10.0
    private: bool = True
    path: str = ""
    exports: Mapping[str, Path] = field(default_factory=dict)
    port: int = 0
    api: ApiService = field(init=False)
    autoscaler: Autoscaler = field(init=False)
    kubelet: Kubelet = field(init=False)
    network: Network = field(init=False)
    """The network of the pods."""
    _server: Server = field(init=False)
    _loop: Loop = field(init=False)

    def __enter__(self) -> KubernetesCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with all rights."""
        return self.folder / "kubeconfig"

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.kubeconfig)}

    @property
    def faults(self) -> Faults:
        return self.api.faults

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.network = network(private=self.private)
        try:
            self._start(self.network)
        except BaseException:
            self.network.close()
            raise

    def stop(self) -> None:
        """Ends the pods first, then the server."""
        self.api.faults.stop()
        self.kubelet.stop()
        self.api.store.close()
        self._loop.stop()
        self._server.stop()

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Returns kubectl's output, which must succeed; without `check`, its errors as well."""
        done = subprocess.run(
            [kubectl_program(), *words],
            env={**os.environ, **self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            start_new_session=True,  # Ctrl-C is not meant for kubectl
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def capacity(self) -> dict[str, str]:
        total: dict[str, int] = {}
        for node in self.api.store.items(NODES):
            for name in ("cpu", "memory", "nvidia.com/gpu", "rdma/ib"):
                amount = int(parse(node["status"]["allocatable"].get(name, "0")))
                total[name] = total.get(name, 0) + amount
        return {name: str(amount) for name, amount in total.items()}

    def queue(self, name: str, quota: Mapping[str, str], **spec: Any) -> None:
        """Creates a LocalQueue in the namespace, and a ClusterQueue and a flavor of its name."""
        amounts = [{"name": kind, "nominalQuota": amount} for kind, amount in quota.items()]
        flavors = [{"name": name, "resources": amounts}]
        groups = [{"coveredResources": list(quota), "flavors": flavors}]
        specs: tuple[tuple[Resource, dict[str, Any]], ...] = (
            (FLAVORS, {}),
            (CLUSTER_QUEUES, {"namespaceSelector": {}, "resourceGroups": groups, **spec}),
            (LOCAL_QUEUES, {"clusterQueue": name}),
        )
        for resource, found in specs:
            self._create(resource, name, found)

    def claim(self, name: str) -> None:
        """Creates a storage claim that all pods of the namespace may mount at once."""
        spec = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "64Gi"}},
        }
        self._create(CLAIMS, name, spec)

    def _create(self, resource: Resource, name: str, spec: Mapping[str, Any]) -> None:
        about = {"metadata": {"name": name}, "spec": spec}
        new = self.api.admission.new(resource, about, self.namespace, "Strict")
        self.api.store.create(resource, new)

    def kubeconfig_of(self, account: str) -> Path:
        """Writes a kubeconfig for a service account, `namespace/name` or `name`."""
        namespace, _, name = f"{self.namespace}/{account}".rpartition("/")
        namespace = namespace.rpartition("/")[2]
        about = {"metadata": {"namespace": namespace, "name": name}}
        token, _ = self.api.access.issue_for(about)
        file = self.folder / f"kubeconfig-{namespace}-{name}"
        self._write_kubeconfig(file, token, namespace)
        return file

    def _start(self, between: Network) -> None:
        tls, authority = serve_as_localhost(
            self.folder,
            names=["kubernetes", "kubernetes.default", "kubernetes.default.svc"],
            addresses=[between.gateway],
        )
        self.api = ApiService(kueue=self.kueue, provisioning=bool(self.pools))
        self._server = Server(self.api.handle, tls, self.port)
        store, admission = self.api.store, self.api.admission
        accounts = Accounts(store, authority.read_text())
        admission.mutators.append(accounts.complete)
        self.autoscaler = Autoscaler(
            store, self.pools, self.clock, lambda spec: self.kubelet.register(spec)
        )
        controllers: list[Controller] = [
            accounts,
            Claims(store, self.folder / "volumes"),
            Deployments(store, admission),
            *(self._kueue() if self.kueue else []),
            Jobs(store, admission, self.backoff),
            Scheduler(store),
            *([self.autoscaler] if self.pools else []),
            Collector(store, [*BUILT_IN, *(KUEUE if self.kueue else ()), PROVISIONING_REQUESTS]),
        ]
        self._loop = Loop(store, controllers)
        self._server.start()
        if between.private:
            self._server.listen(between.gateway)
        for name in dict.fromkeys(("default", "kube-system", self.namespace)):
            new = admission.new(NAMESPACES, {"metadata": {"name": name}}, "", "")
            store.create(NAMESPACES, new)
            accounts.reconcile(name)
        self._loop.start()
        token = self.api.access.issue("admin", ["system:masters"])
        self._write_kubeconfig(self.kubeconfig, token, self.namespace)
        context = ssl.create_default_context(cafile=str(authority))
        client = Client(self.url, context, self.api.access.issue(OWN, ["system:masters"]))
        nodes = default_nodes(self.nodes) if isinstance(self.nodes, int) else self.nodes
        self.kubelet = Kubelet(
            client,
            self.folder / "nodes",
            [*nodes, *self.autoscaler.first()],
            between,
            token=self.api.kubelet_token,
            images=self.images,
            restart_pause=self.restart_pause,
            api=(between.gateway, self._server.port),
            path=self.path,
            exports=self.exports,
        )
        self.kubelet.start()

    def _kueue(self) -> list[Controller]:
        found = Kueue(self.api.store)
        self.api.admission.mutators.append(found.suspend)
        return [found, *([Provisioning(self.api.store)] if self.pools else [])]

    def _write_kubeconfig(self, file: Path, token: str, namespace: str) -> None:
        authority = self.folder / "ca.pem"
        text = kubeconfig_text(CONTEXT, self.url, authority, token, namespace)
        write_private(file, text)


def kubectl_program() -> str:
    """Returns the path of kubectl: beside this Python, or on PATH."""
    own = Path(sys.executable).with_name("kubectl")
    return str(own) if own.exists() else shutil.which("kubectl") or "kubectl"
