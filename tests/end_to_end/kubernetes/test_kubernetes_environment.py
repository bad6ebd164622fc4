"""An environment's objects, applied to a cluster as Flux does it, and a job that runs there."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from program import Fairway, Pipe
from waiting import until

from fairway_core.environment import Kubernetes
from fairway_core.kubernetes import flux, node_setup
from fairway_core.kubernetes.manifests import manifests
from fairway_core.kubernetes.node_setup import SCRATCH
from fairway_core.kubernetes.pools import Volume
from fairway_core.kubernetes.queues import PRIORITIES
from fairway_core.target import SYSTEM_TAINT, Target
from fairway_simulator.kubernetes import KubernetesCluster, NodeSpec, Pool, missing
from fairway_simulator.kubernetes.cluster import CONTEXT

SPACE = "training"
POOL = {"cpu": "64", "memory": "256Gi"}
TAINT = {"key": "fairway.dev/pool", "value": "cpu", "effect": "NoSchedule"}
TARGET = Target.model_validate(
    {
        "name": "cpu",
        "engine": "kubernetes",
        "vm_size": "Standard_D64s_v6",
        "nodes": {"min": 1, "max": 2},
        "mounts": {"data": "/mnt/data"},
        "kubernetes": {
            "context": CONTEXT,
            "namespace": SPACE,
            "image": "sim:1",
            "volumes": {"data": "data"},
            "shared": "/mnt/data/fairway",
            "selector": {"agentpool": "cpu"},
            "tolerations": ["fairway.dev/pool"],
            "head_tolerations": [SYSTEM_TAINT],
            "queue": "cpu",
            "priorities": dict(PRIORITIES),
        },
    }
)
DATA = Volume(
    name="data",
    type="nfs",
    source="10.40.16.4:/srv/data",
    options="rw,hard,vers=4.1,proto=tcp,nconnect=8,_netdev,noatime",
    gib=4096,
)


@pytest.fixture
def time() -> SimpleNamespace:
    """The clock of the autoscaler."""
    return SimpleNamespace(now=0.0)


@pytest.fixture
def cluster(tmp_path: Path, fairway: Fairway, time: SimpleNamespace) -> Iterator[KubernetesCluster]:
    """A cluster with a pool, a system node, a file server, and Kueue as installed by Flux."""
    if lacking := missing():
        pytest.skip(lacking)
    served = tmp_path / "served"
    served.mkdir()
    taint = {"key": SYSTEM_TAINT, "value": "true", "effect": "NoSchedule"}
    room, labels = {"cpu": "4", "memory": "16Gi"}, {"agentpool": "system"}
    system = NodeSpec("system-0", room, labels, [taint])
    node = NodeSpec("", POOL, {"agentpool": "cpu"}, [TAINT])
    with KubernetesCluster(
        tmp_path / "cluster",
        nodes=[system],
        pools=[Pool("cpu", node, least=1, most=2, stock=1)],
        clock=lambda: float(time.now),
        kueue=True,
        images=("sim*", "python*"),
        exports={DATA.source: served},
    ) as found:
        (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [TARGET.record()]}))
        yield found


def test_kubernetes_environment_applied_by_flux_scales_up_and_runs_a_job(
    cluster: KubernetesCluster,
    fairway: Fairway,
    time: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a pool that scales, pods are created only once all nodes exist or are being created."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    files = manifests([TARGET], [DATA], Kubernetes())
    # The stand-in already has what Kueue's chart installs,
    # and its nodes are as the privileged set-up of nodes leaves them.
    order = [name for name, _, _ in flux.kustomizations(files) if name not in ("kueue", "nodes")]
    assert order == ["jobs", "queues"]
    # Then again, as Flux keeps applying the objects.
    for words in (["apply"], ["apply", "--server-side", "--force-conflicts"]):
        for folder in order:
            texts = [text for path, text in files.items() if path.startswith(f"{folder}/")]
            cluster.kubectl(*words, "-f", "-", stdin="".join(texts))
        cluster.kubectl("-n", SPACE, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data")
    cluster.kubectl("-n", SPACE, "rollout", "status", "deployment/fairway-head")
    job = fairway.job(
        "hostname", template="every-node", processes_per_node=1, nodes=2, priority="high"
    )
    run = fairway.submit(job, "--target", "cpu")
    pods = ("-n", SPACE, "get", "pods", "-o", "name", "-l", "fairway.dev/part=0")
    none = "waiting for nodes for all of its 2 pods: Capacity is not found"
    until(lambda: (fairway.show(run)["reason"] or "").startswith(none), lambda: fairway.show(run))
    assert cluster.kubectl(*pods) == ""
    cluster.pools[0].stock = 2
    time.now += 61
    waits = "1 of its 2 pods run: waiting for a node: "
    until(lambda: (fairway.show(run)["reason"] or "").startswith(waits), lambda: fairway.show(run))
    assert fairway.show(run)["reason"].endswith("; the pool scales up")
    time.now += 241
    ended = fairway.within("wait", run)
    assert ended.returncode == 0, ended.stdout + ended.stderr + fairway.within("logs", run).stdout
    listed = cluster.kubectl("-n", SPACE, "get", "workloads", "-o", "json")
    [workload] = json.loads(listed)["items"]
    assert workload["spec"]["priority"] == 1000
    assert workload["status"]["admission"]["clusterQueue"] == "cpu"
    [held] = workload["status"]["admission"]["podSetAssignments"]
    assert held["count"] == 2
    assert held["flavors"] == {"cpu": "cpu", "memory": "cpu"}
    head = json.loads(
        cluster.kubectl("-n", SPACE, "get", "pods", "-o", "json", "-l", "app=fairway-head")
    )
    assert [each["spec"]["nodeName"] for each in head["items"]] == ["system-0"]
    # A pod that a user creates directly is not scheduled to these nodes.
    own = json.dumps({"spec": {"serviceAccountName": "fairway-task"}})
    words = ("-n", SPACE, "run", "own", "--image=sim:1", f"--overrides={own}", "--", "true")
    cluster.kubectl(*words)
    why = ("-n", SPACE, "get", "pod", "own", "-o", "jsonpath={.status.conditions[*].message}")
    until(lambda: "taint {CriticalAddonsOnly: true}" in cluster.kubectl(*why), lambda: "")
    assert (cluster.folder.parent / "served" / "fairway").is_dir()
    # A job that needs more nodes than the pool's maximum is refused at once.
    refused = fairway.within(
        "submit", fairway.job("true", nodes=3, processes_per_node=1), "--target", "cpu"
    )
    assert refused.returncode == 2
    assert "the job needs 3 nodes, and `cpu` has 2" in refused.stderr


FAST = TARGET.model_copy(
    update={
        "name": "nd",
        "vm_size": "Standard_ND96isr_H100_v5",
        "kubernetes": TARGET.kubernetes
        and TARGET.kubernetes.model_copy(
            update={"selector": {"agentpool": "nd"}, "queue": None, "priorities": {}}
            | {"scratch": SCRATCH}
        ),
    }
)
# Reports its topology and scratch, then waits until it is killed.
LOOKS = """head -n 1 "$NCCL_TOPO_FILE"; touch "$FAIRWAY_SCRATCH_DIR/mine"
exec 9>/mnt/data/pipe; echo ready >&9; sleep 3600"""


def test_kubernetes_environment_gives_pods_a_topology_file_and_local_scratch(
    tmp_path: Path, fairway: Fairway, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scratch folder is removed even if the pod is killed."""
    if lacking := missing():
        pytest.skip(lacking)
    served = tmp_path / "served"
    served.mkdir()
    os.link(pipe.path, served / "pipe")
    size = {"cpu": "96", "memory": "1900Gi", "nvidia.com/gpu": "8"}
    nodes = [NodeSpec("nd-0", size, {"agentpool": "nd"}, [TAINT], nvme=True), NodeSpec("system-0")]
    (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [FAST.record()]}))
    with KubernetesCluster(
        tmp_path / "cluster", nodes=nodes, images=("sim*", "python*"), exports={DATA.source: served}
    ) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        files = manifests([FAST], [DATA], Kubernetes())
        jobs = "".join(text for path, text in files.items() if path.startswith("jobs/"))
        cluster.kubectl("apply", "-f", "-", stdin=jobs)
        cluster.kubectl("-n", SPACE, "rollout", "status", "deployment/fairway-head")
        job = fairway.job(LOOKS, template="every-node", processes_per_node=1, preflight="none")
        run = fairway.submit(job, "--target", "nd")
        assert pipe.lines(1) == ["ready"]
        disks = cluster.kubelet.disks("nd-0")
        [scratch] = (disks / "fairway").iterdir()
        assert [*scratch.glob("fairway-*/tasks/*/mine")]
        assert _left(disks) == [scratch]
        part = f"fairway.dev/run={run},fairway.dev/part=0"
        name = cluster.kubectl("-n", SPACE, "get", "pods", "-l", part, "-o", "name").strip()
        killed = cluster.kubelet.pod(SPACE, name.removeprefix("pod/"))
        killed.kill("OOMKilled")
        failed = "--for=jsonpath={.status.phase}=Failed"
        cluster.kubectl("-n", SPACE, "wait", failed, name, "--timeout=280s")
        assert _left(disks) == []
        assert fairway.within("wait", run).returncode != 0
        assert '<system version="1">' in fairway.within("logs", run).stdout


def _left(disks: Path) -> list[Path]:
    """Cleans up as the set-up of nodes does, and returns the scratch folders that remain."""
    script = Path(node_setup.__file__).with_name("node_cleanup.sh")
    steps = 'source "$1"; clean "$2"'
    subprocess.run(["bash", "-euc", steps, "bash", script, disks / "fairway"], check=True)
    return [*(disks / "fairway").iterdir()]
