"""A namespace of the stand-in for Kubernetes, and manifests of Jobs there."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import PATIENCE

from fairway_simulator.kubernetes import KubernetesCluster
from fairway_simulator.kubernetes.cluster import kubectl_program


@dataclass
class Space:
    """A namespace of a cluster, accessed with kubectl."""

    cluster: KubernetesCluster
    name: str

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.cluster.kubeconfig

    def run(
        self, *words: str, stdin: str | bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs kubectl in this namespace."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run(
            [kubectl_program(), "--namespace", self.name, *words],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=b"" if data is None else data,
            capture_output=True,
            timeout=PATIENCE,
        )

    def do(self, *words: str, stdin: str | bytes | None = None) -> str:
        """Returns the output of kubectl, which must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{words}: {done.stderr.decode()}"
        return done.stdout.decode()

    def refused(self, *words: str, stdin: str | None = None) -> str:
        """Returns the error of kubectl, which must fail."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr.decode()

    def create(self, manifest: dict[str, Any]) -> str:
        """Creates an object."""
        return self.do("create", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *words: str) -> dict[str, Any]:
        """Returns an object, or a list object."""
        return json.loads(self.do("get", *words, "-o", "json"))

    def items(self, *words: str) -> list[dict[str, Any]]:
        """Returns the objects of a list."""
        return self.get(*words)["items"]

    def wait(self, what: str, condition: str) -> None:
        """Waits for a condition of an object: its name, `jsonpath=…`, `create` or `delete`."""
        plain = "=" in condition or condition in ("create", "delete")
        form = condition if plain else f"condition={condition}"
        self.do("wait", f"--for={form}", what, f"--timeout={PATIENCE - 10}s")

    def pod_of(self, job: str, index: int) -> str:
        """Waits for a pod with that index, and returns the newest one."""
        mark = f"batch.kubernetes.io/job-completion-index={index}"
        words = ("get", "pods", "-l", f"job-name={job},{mark}", "-o", "name")
        self.do("wait", "--for=create", "pods", "-l", f"job-name={job},{mark}", "--timeout=280s")
        return self.do(*words, "--sort-by=.metadata.creationTimestamp").split()[-1]


@dataclass
class Makers:
    """A maker of manifests whose pods have `folder` mounted at /go."""

    folder: Path

    def job(self, name: str, command: str, **spec: Any) -> dict[str, Any]:
        """Returns an Indexed Job whose pods run a line of bash."""
        container = {"name": "task", "image": "sim", "command": ["bash", "-c", command]}
        container |= {"volumeMounts": [], **spec.pop("container", {})}
        container["volumeMounts"].append({"name": "go", "mountPath": "/go"})
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30}
        pod |= {"containers": [container], "volumes": [], **spec.pop("pod", {})}
        pod["volumes"].append({"name": "go", "hostPath": {"path": str(self.folder)}})
        parallelism = spec.get("completions", 1)
        shape = {"completions": 1, "parallelism": parallelism, "completionMode": "Indexed"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {**shape, **spec, "template": {"spec": pod}},
        }

    def gang(self, name: str, main: str, workers: str = "", count: int = 3) -> dict[str, Any]:
        """Returns the Job of a task on several nodes, whose result is that of index 0."""
        workers = workers or "trap 'exit 143' TERM; while :; do sleep 0.1; done"
        told = {"containerName": "task", "operator": "In", "values": [143]}
        return self.job(
            name,
            f"if [ $JOB_COMPLETION_INDEX = 0 ]; then {main}; else {workers}; fi",
            completions=count,
            backoffLimit=0,
            successPolicy={"rules": [{"succeededIndexes": "0"}]},
            podFailurePolicy={
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "Ignore", "onExitCodes": told},
                ]
            },
            container={"resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "8"}}},
        )

    def go(self) -> None:
        """Lets the pods that wait for /go/go continue."""
        (self.folder / "go").touch()
