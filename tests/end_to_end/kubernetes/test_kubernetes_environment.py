"""What an environment puts into its cluster, applied as Flux does it; then a job runs there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fairway_core.kubernetes import flux
from fairway_core.kubernetes.manifests import Content, manifests
from fairway_core.kubernetes.queues import PRIORITIES
from fairway_core.kubernetes.volumes import Volume
from fairway_core.target import Target
from fairway_simulator.kubernetes import KubernetesCluster, NodeSpec, missing
from fairway_simulator.kubernetes.cluster import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Fairway

SPACE = "training"
POOL = {"cpu": "64", "memory": "256Gi"}
TAINT = {"key": "fairway.dev/pool", "value": "cpu", "effect": "NoSchedule"}
TARGET = Target.model_validate(
    {
        "name": "cpu",
        "engine": "kubernetes",
        "vm_size": "Standard_D64s_v6",
        "nodes": {"min": 2, "max": 2},
        "mounts": {"data": "/mnt/data"},
        "kubernetes": {
            "context": CONTEXT,
            "namespace": SPACE,
            "image": "sim:1",
            "volumes": {"data": "data"},
            "shared": "/mnt/data/fairway",
            "selector": {"agentpool": "cpu"},
            "tolerations": ["fairway.dev/pool"],
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
def cluster(tmp_path: Path, fairway: Fairway) -> Iterator[KubernetesCluster]:
    """A pool, and a node of the system's; a file server; Kueue, which Flux has installed."""
    if lacking := missing():
        pytest.skip(lacking)
    served = tmp_path / "served"
    served.mkdir()
    nodes = [NodeSpec(f"cpu-{n}", POOL, {"agentpool": "cpu"}, [TAINT]) for n in range(2)]
    nodes.append(NodeSpec("system-0", {"cpu": "4", "memory": "16Gi"}, {"agentpool": "system"}))
    with KubernetesCluster(
        tmp_path / "cluster",
        nodes=nodes,
        kueue=True,
        images=("sim*", "python*"),
        exports={DATA.source: served},
    ) as found:
        (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [TARGET.record()]}))
        yield found


def test_a_job_runs_where_flux_has_applied_an_environment(
    cluster: KubernetesCluster, fairway: Fairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    files = manifests([TARGET], [DATA], Content())
    # Of Kueue the stand-in is what its chart installs.
    order = [name for name, _, _ in flux.kustomizations(files) if name != "kueue"]
    assert order == ["jobs", "queues"]
    # Then once more, as Flux looks again and again whether all is as it is written.
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
    assert (cluster.folder.parent / "served" / "fairway").is_dir()
    # One node more than there can be waits for nobody.
    refused = fairway(
        "submit", fairway.job("true", nodes=3, processes_per_node=1), "--target", "cpu"
    )
    assert refused.returncode == 2
    assert "the job needs 3 nodes, and `cpu` has 2" in refused.stderr
