"""A GPU fails on a Kubernetes node: the health check reports it, and jobs avoid the node until it
is repaired. The check runs as its DaemonSet starts it, with the files, the account and the rights
that an environment puts into its cluster."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from program import Fairway
from programs import executable, finished

from fairway_agent.kubernetes.api import MACHINE
from fairway_core.findings import UserError
from fairway_core.kubernetes import documents, health
from fairway_core.machine import Machine
from fairway_runner.live.operations import HealthReport
from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.store import ResourceStore
from fairway_simulator.kubernetes import KubernetesCluster, __main__, missing

VM = (
    "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/k/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/aks-sim/virtualMachines/0"
)
TARGET = __main__.target()
POOL = TARGET.model_copy(
    update={
        "name": "sim",
        "vm_size": "Standard_ND96isr_H100_v5",
        "kubernetes": TARGET.kubernetes.model_copy(update={"rdma": "rdma/ib"}),
    }
)
# A VM size without InfiniBand, as this machine has none.
GPUS = TARGET.model_copy(update={"name": "gpus", "vm_size": "Standard_NC64as_T4_v3"})


@dataclass
class Pool:
    """The nodes of the stand-in, each with a fake driver and a fake kernel tree."""

    cluster: KubernetesCluster
    folder: Path
    metadata: str

    def __post_init__(self) -> None:
        objects = health.objects([POOL])
        self._set = next(each for each in objects if each["kind"] == "DaemonSet")
        # The stand-in has no controller for DaemonSets: `check` runs what their pods would.
        rest = [each for each in objects if each is not self._set]
        self.cluster.kubectl("apply", "-f", "-", stdin=documents.text(rest))

    def breaks(self, node: str, gpus: int) -> None:
        """Sets how many of a node's eight GPUs still work."""
        folder = self._files(node) / "bin"
        shell = f'#!/bin/sh\n[ "$1" = nvlink ] || seq -f "%.0f, 0" {gpus}\n'
        (folder / "nvidia-smi").write_text(shell)

    def check(self, node: str) -> subprocess.CompletedProcess[str]:
        """Runs the check once on a node, as the container does."""
        [container] = self._set["spec"]["template"]["spec"]["containers"]
        folder, account = self._files(node), self._account(node)
        words = [each.replace("/opt/fairway", str(folder)) for each in container["command"]]
        words[words.index("--every") + 1] = "0"
        words.insert(words.index("--"), "--pause=0")
        host, _, port = self.cluster.url.removeprefix("https://").partition(":")
        variables = {each["name"]: each.get("value", node) for each in container["env"]}
        return finished(
            words,
            env={
                **{
                    key: text.replace("/opt/fairway", str(folder))
                    for key, text in variables.items()
                },
                "PATH": os.environ["PATH"],
                "FAIRWAY_SYSTEM_ROOT": str(folder / "root"),
                "FAIRWAY_SERVICE_ACCOUNT": str(account),
                "FAIRWAY_METADATA_URL": self.metadata,
                "KUBERNETES_SERVICE_HOST": host,
                "KUBERNETES_SERVICE_PORT": port,
            },
        )

    def node(self, name: str) -> dict[str, Any]:
        return json.loads(self.cluster.kubectl("get", "node", name, "-o", "json"))

    def status(self, name: str) -> tuple[str, bool]:
        """Returns the status of the condition HardwareFault, and True if the node is cordoned."""
        node = self.node(name)
        listed = node["status"]["conditions"]
        [found] = [each["status"] for each in listed if each["type"] == "HardwareFault"]
        return found, bool(node["spec"].get("unschedulable"))

    def _files(self, node: str) -> Path:
        """Returns the pod's folder /opt/fairway, with a fake driver and a fake kernel tree."""
        folder = self.folder / node
        if folder.exists():
            return folder
        words = ("-n", health.NAMESPACE, "get", "configmap", "fairway-health", "-o", "json")
        data = json.loads(self.cluster.kubectl(*words))["data"]
        volumes = self._set["spec"]["template"]["spec"]["volumes"]
        [items] = [each["configMap"]["items"] for each in volumes if "configMap" in each]
        for item in items:
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(data[item["key"]])
            file.chmod(0o755)
        for number in range(8):
            port = folder / f"root/sys/class/infiniband/mlx5_{number}/ports/1"
            port.mkdir(parents=True)
            facts = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "rate": "400 Gb/sec"}
            for name, text in facts.items():
                (port / name).write_text(f"{text}\n")
        (folder / "root/proc").mkdir()
        (folder / "root/proc/mounts").touch()
        self.breaks(node, 8)
        return folder

    def _account(self, node: str) -> Path:
        """Returns a folder with the credentials of a pod of the DaemonSet on that node."""
        folder = self.folder / f"account-{node}"
        folder.mkdir(exist_ok=True)
        about = {"metadata": {"namespace": health.NAMESPACE, "name": "fairway-health"}}
        token, _ = self.cluster.api.access.issue_for(about, node=node)
        (folder / "token").write_text(token)
        (folder / "namespace").write_text(health.NAMESPACE)
        shutil.copy(self.cluster.folder / "ca.pem", folder / "ca.crt")
        return folder


@pytest.fixture
def pool(tmp_path_factory: pytest.TempPathFactory, fairway: Fairway) -> Iterator[Pool]:
    """Three nodes of ND H100 v5, outside of the project, whose files are copied as code."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("cluster")
    with (
        KubernetesCluster(folder, images=("sim*", "python*"), path="/mnt/data/bin") as cluster,
        MetadataService(ResourceStore(), VM) as metadata,
    ):
        __main__.prepare(cluster)
        targets = [TARGET.record(), GPUS.record()]
        (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": targets}))
        __main__.publish(cluster, fairway.folder)
        yield Pool(cluster, tmp_path_factory.mktemp("nodes"), metadata.url)


def test_health_check_cordons_a_broken_node_until_it_is_repaired_unless_a_person_did(
    pool: Pool, fairway: Fairway
) -> None:
    for name in ("sim-0", "sim-1", "sim-2"):
        done = pool.check(name)
        assert done.returncode == 0, done.stderr
        assert pool.status(name) == ("False", False), done.stderr
    pool.breaks("sim-0", gpus=7)
    assert "HardwareFault True: 7 of 8 GPUs" in pool.check("sim-0").stderr
    assert pool.status("sim-0") == ("True", True)

    name = TARGET.name
    listed = json.loads(fairway.within("nodes", "list", name, "--json").stdout)
    told = {each["name"]: (each["state"], each["reason"]) for each in listed}
    assert told["sim-0"] == ("ready, drained", "7 of 8 GPUs")
    assert told["sim-1"] == ("ready", None)
    assert "sim-0 is ready, drained: 7 of 8 GPUs" in fairway.within("doctor", name).stdout

    run = fairway.submit(fairway.job("hostname", template="plain"), "--target", name)
    assert fairway.within("wait", run).returncode == 0
    [task] = fairway.show(run)["task_list"]
    assert task["node"] in ("sim-1", "sim-2")

    pool.cluster.kubectl("cordon", "sim-1", "sim-2")
    run = fairway.submit(fairway.job("hostname", template="plain"), "--target", name)
    assert fairway.show_waiting(run)["reason"].endswith("; broken: sim-0: 7 of 8 GPUs")

    pool.breaks("sim-0", gpus=8)
    for node in ("sim-0", "sim-1"):
        assert pool.check(node).returncode == 0
    assert pool.status("sim-0") == ("False", False)
    assert pool.status("sim-1") == ("False", True), "a person has cordoned it"
    assert fairway.within("wait", run).returncode == 0

    pool.breaks("sim-0", gpus=7)
    pool.check("sim-0")
    assert fairway.within("nodes", "drain", name, "sim-0").returncode == 0
    pool.breaks("sim-0", gpus=8)
    pool.check("sim-0")
    assert pool.status("sim-0") == ("False", True), "a person has drained it since"


def test_health_report_names_the_vm_of_the_node_only(pool: Pool, fairway: Fairway) -> None:
    from fairway_runner.live.operations import report_of
    from fairway_runner.targets.lookup import find_target

    def report() -> HealthReport:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(fairway.folder)
            return report_of(find_target(TARGET.name), "sim-0", "HpcMissingGpu")

    pool.breaks("sim-0", gpus=7)
    pool.check("sim-0")
    with pytest.raises(UserError, match="the VM of sim-0 is not known"):
        report()
    cloud = json.dumps({"spec": {"providerID": f"azure://{VM}"}})
    pool.cluster.kubectl("patch", "node", "sim-0", "-p", cloud)
    found = report()
    assert (found.machine.resource, found.description) == (VM, "7 of 8 GPUs")
    assert found.machine.vm
    # An account that may annotate nodes cannot have another VM reported.
    other = VM.replace("/virtualMachines/", "/virtualMachines/other-")
    note = f"{MACHINE}=host=DSM01,vm=aa,resource={other}"
    pool.cluster.kubectl("annotate", "--overwrite", "node", "sim-0", note)
    assert report().machine == Machine(VM)


def test_preflight_with_a_missing_gpu_ends_the_run_with_exit_code_69(
    pool: Pool, fairway: Fairway
) -> None:
    """Preflight runs the `nvidia-smi` of the pod's image."""
    driver = executable(
        pool.cluster.folder / "volumes/default" / __main__.CLAIM / "bin/nvidia-smi", "seq 0 3"
    )
    job = fairway.job("echo trained", template="every-node", nodes=2)
    assert "preflight passed on 2 nodes" in fairway.watch(job, "--target", GPUS.name)
    driver.write_text("#!/bin/sh\nseq 0 2\n")
    ended = fairway.within("submit", job, "--watch", "--target", GPUS.name)
    assert ended.returncode == 69
    assert "GPU count 3, expected 4" in ended.stdout
    assert "trained" not in ended.stdout
    assert "trained" in fairway.watch(job, "--target", GPUS.name, "-s", "preflight=none")
