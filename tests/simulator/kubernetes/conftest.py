"""A cluster of the stand-in's that kubectl speaks to, and manifests of Jobs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE

from fairway_simulator.kubernetes import KubernetesCluster, missing
from fairway_simulator.kubernetes.cluster import kubectl_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Space:
    """A namespace of a cluster, by kubectl."""

    cluster: KubernetesCluster
    name: str

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.cluster.kubeconfig

    def run(
        self, *words: str, stdin: str | bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Result of kubectl in this namespace."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run(
            [kubectl_program(), "--namespace", self.name, *words],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=b"" if data is None else data,
            capture_output=True,
            timeout=PATIENCE,
        )

    def do(self, *words: str, stdin: str | bytes | None = None) -> str:
        """Output of kubectl, which must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{words}: {done.stderr.decode()}"
        return done.stdout.decode()

    def refused(self, *words: str, stdin: str | None = None) -> str:
        """Why kubectl fails."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr.decode()

    def create(self, manifest: dict[str, Any]) -> str:
        """Creates an object."""
        return self.do("create", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *words: str) -> dict[str, Any]:
        """An object, or a list of them."""
        return json.loads(self.do("get", *words, "-o", "json"))

    def items(self, *words: str) -> list[dict[str, Any]]:
        """The objects of a list."""
        return self.get(*words)["items"]

    def wait(self, what: str, condition: str) -> None:
        """Until a condition of an object holds, `jsonpath=…`, or `delete`."""
        plain = "=" in condition or condition in ("create", "delete")
        form = condition if plain else f"condition={condition}"
        self.do("wait", f"--for={form}", what, f"--timeout={PATIENCE - 10}s")

    def pod_of(self, job: str, index: int) -> str:
        """The newest pod of an index, when it is made."""
        mark = f"batch.kubernetes.io/job-completion-index={index}"
        words = ("get", "pods", "-l", f"job-name={job},{mark}", "-o", "name")
        self.do("wait", "--for=create", "pods", "-l", f"job-name={job},{mark}", "--timeout=280s")
        return self.do(*words, "--sort-by=.metadata.creationTimestamp").split()[-1]


@pytest.fixture(scope="session")
def _kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """A cluster of three nodes for all tests of a worker, each in a namespace of its own."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesCluster(folder, backoff=0.1, restart_pause=0.1) as cluster:
        yield Space(cluster, "default")


@pytest.fixture
def space(_kubernetes: Space) -> Iterator[Space]:
    """A new namespace."""
    name = f"test-{secrets.token_hex(4)}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _kubernetes.create(made)
    found = Space(_kubernetes.cluster, name)
    found.wait("serviceaccount/default", "create")
    yield found
    found.cluster.faults.clear()
    _kubernetes.do("delete", "namespace", name, "--wait=false")


@pytest.fixture
def space_of() -> Any:
    """The namespace of a stand-in that a test starts for itself."""
    return lambda cluster: Space(cluster, cluster.namespace)


@pytest.fixture
def cluster(space: Space) -> KubernetesCluster:
    """The stand-in itself."""
    return space.cluster


def job(name: str, command: str, **spec: Any) -> dict[str, Any]:
    """A manifest: an Indexed Job whose pods run a line of bash."""
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "task",
                "image": "sim",
                "command": ["bash", "-c", command],
                **spec.pop("container", {}),
            }
        ],
        **spec.pop("pod", {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": 1,
            "parallelism": spec.get("completions", 1),
            "completionMode": "Indexed",
            **spec,
            "template": {"spec": pod},
        },
    }


def gang(name: str, main: str, workers: str = "", count: int = 3) -> dict[str, Any]:
    """A manifest: a task on several nodes, whose index 0 decides."""
    workers = workers or "trap 'exit 143' TERM; while :; do sleep 0.1; done"
    return job(
        name,
        f"if [ $JOB_COMPLETION_INDEX = 0 ]; then {main}; else {workers}; fi",
        completions=count,
        backoffLimit=0,
        podReplacementPolicy="Failed",
        successPolicy={"rules": [{"succeededIndexes": "0"}]},
        podFailurePolicy={
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": "task", "operator": "NotIn", "values": [0]},
                },
            ]
        },
        container={"resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "8"}}},
    )


@pytest.fixture
def jobs(tmp_path: Path) -> Makers:
    """The makers of manifests."""
    return Makers(tmp_path)


@dataclass
class Makers:
    """Makers of manifests, whose pods find `folder` at /go."""

    folder: Path

    def job(self, name: str, command: str, **spec: Any) -> dict[str, Any]:
        """An Indexed Job whose pods run a line of bash."""
        return self._with_folder(job(name, command, **spec))

    def gang(self, name: str, main: str, workers: str = "", count: int = 3) -> dict[str, Any]:
        """A task on several nodes, whose index 0 decides."""
        return self._with_folder(gang(name, main, workers, count))

    def go(self) -> None:
        """Lets the pods go on that wait for it."""
        (self.folder / "go").touch()

    def _with_folder(self, manifest: dict[str, Any]) -> dict[str, Any]:
        spec = manifest["spec"]["template"]["spec"]
        volume = {"name": "go", "hostPath": {"path": str(self.folder)}}
        spec.setdefault("volumes", []).append(volume)
        mounts = spec["containers"][0].setdefault("volumeMounts", [])
        mounts.append({"name": "go", "mountPath": "/go"})
        return manifest
