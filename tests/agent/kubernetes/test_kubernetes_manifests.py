"""A run's objects, checked against the published schemas: the API server refuses unknown fields."""

import json
from dataclasses import replace
from typing import Any

import pytest
from api_server import Cluster
from kubernetes_validate import validate

from fairway_agent import control
from fairway_agent.control import Part
from fairway_agent.kubernetes import manifests, settings, submit
from fairway_agent.kubernetes.settings import MOST_WAITS, Settings, of_run, parse
from fairway_agent.resources import ResourceRequest
from fairway_agent.spec import RunPlan
from fairway_simulator.kubernetes.api.schemas import newest

pytestmark = pytest.mark.integration

VERSIONS = ("1.33", "1.37")
RUN = "digits-7k2m9p"
PLAN = RunPlan(RUN, "/data/fairway/runs/x/code", tasks=4, grace=20.0)
SETTINGS = Settings(
    image="myregistry.azurecr.io/train:1",
    head_image="python:3.12-slim",
    service_account="fairway-task",
    head="fairway-head",
    selector={"agentpool": "nd"},
    tolerations=("team",),
    volumes={"data": "data-claim"},
    paths={"data": "/data"},
    patience=900.0,
    resources={"cpu": "86", "nvidia.com/gpu": "8", "rdma/ib": "8"},
)
SWEEP = Part("tasks", 0, [0, 2, 5], 1, 8)
GANG = Part("tasks", 1, [3], 4, 8)
SHARES = Part("tasks", 0, [*range(20)], 1, 1, gpus=1)
CORES = Part("tasks", 0, [0, 1], 1, 4, cores=4)
COMMAND = ["python3", "-s", "/data/fairway/fairway/abc", "fairway_agent.kubernetes.pod", "/r"]


def made(part: Part, plan: RunPlan = PLAN, settings: Settings = SETTINGS) -> dict[str, Any]:
    return manifests.part_job(RUN, 0, part, plan, settings, COMMAND)


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["template"]["spec"]


def mounted(path: str, part: Part, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the volume that the part's pods have at this path, and its mount."""
    pod = pod_of(made(part, settings=replace(SETTINGS, **settings)))
    mounts = pod["containers"][0]["volumeMounts"]
    [mount] = [each for each in mounts if each["mountPath"] == path]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    return volume, mount


TOPOLOGY, DISKS = "/opt/microsoft/ndv5/topo.xml", "/mnt/resource_nvme/fairway"
QUEUED = replace(SETTINGS, queue="nd", shm_size="64Gi", topology=TOPOLOGY, scratch=DISKS)
PLAIN = Settings("a", "b", "c", "d", scratch="128Gi")
LIMITED = RunPlan(RUN, "/x", max_parallel=2, timeout=60.0, retries=2, max_duration=1e9)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("settings", "plan"), [(SETTINGS, PLAN), (QUEUED, LIMITED), (PLAIN, LIMITED)]
)
def test_kubernetes_jobs_validate_strictly_against_each_server_version(
    version: str, settings: Settings, plan: RunPlan
) -> None:
    jobs = [made(part, plan, settings) for part in (SWEEP, GANG, SHARES, CORES)]
    for job in (*jobs, manifests.controller_job(RUN, 0, settings, COMMAND)):
        validate(job, version, strict=True)


@pytest.mark.parametrize("part", [SWEEP, GANG, SHARES])
def test_kubernetes_pod_mounts_the_topology_file_of_its_nodes_for_nccl(part: Part) -> None:
    volume, mount = mounted("/opt/microsoft/ndv5", part, topology=TOPOLOGY)
    assert (mount["name"], mount["readOnly"]) == ("fairway-topology", True)
    # Otherwise a task would wait forever on a cluster that was prepared without it.
    assert volume["configMap"] == {"name": "fairway-topology-ndv5", "optional": True}
    assert "fairway-topology" not in str(made(part))


@pytest.mark.parametrize("part", [SWEEP, GANG, SHARES])
def test_kubernetes_scratch_is_a_folder_per_pod_on_the_disks_of_the_node(part: Part) -> None:
    volume, mount = mounted("/var/tmp", part, scratch=DISKS)
    # Not created if it is missing: that would be on the system disk.
    assert volume["hostPath"] == {"path": DISKS, "type": "Directory"}
    assert mount["subPathExpr"] == "$(_FAIRWAY_POD_UID)"
    container = pod_of(made(part))["containers"][0]
    names = {each["name"]: each["valueFrom"] for each in container["env"]}
    assert names["_FAIRWAY_POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}


@pytest.mark.parametrize(
    ("part", "scratch", "most"),
    [
        (GANG, "128Gi", {"sizeLimit": "131072Mi"}),
        (SHARES, "128Gi", {"sizeLimit": "16384Mi"}),
        (CORES, "130Gi", {"sizeLimit": "6191Mi"}),  # rounded down
        (SWEEP, "", {}),  # a target without a limit
    ],
)
def test_kubernetes_scratch_on_the_system_disk_is_limited_by_the_share(
    part: Part, scratch: str, most: dict[str, str]
) -> None:
    volume, mount = mounted("/var/tmp", part, scratch=scratch)
    assert volume["emptyDir"] == most
    assert "subPathExpr" not in mount


def test_kubernetes_versions_include_the_newest_schema() -> None:
    assert newest().startswith(f"{VERSIONS[-1]}.")


@pytest.mark.parametrize(
    ("queue", "nodes", "more"),
    [
        ("nd", [1] * 20, {"last": True}),
        ("nd", [4, 4], {"max_parallel": 1}),
        (None, [1, 2], {"after": ["first"], "last": True, "timeout": 60.0, "retries": 2}),
    ],
    ids=["a sweep", "one task after another", "after another run"],
)
def test_kubernetes_manifests_of_an_entire_run_are_accepted_by_the_server(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    queue: str | None,
    nodes: list[int],
    more: dict[str, Any],
) -> None:
    """Including those that its controller creates later."""
    monkeypatch.setattr(submit, "_require_quota", lambda *_: None)
    cluster.submitted([1], "first")
    folder = cluster.bring("job-a", nodes, **more)
    target = json.loads((folder / "target.json").read_text())
    target["kubernetes"] |= {"queue": queue, "selector": {"agentpool": "nd"}}
    (folder / "target.json").write_text(json.dumps(target))
    container = {"image": "own:1", "shm_size": "8g"}
    (folder / "job.json").write_text(json.dumps({"container": container}))
    cluster.submit(key="-----BEGIN")
    written = [json.loads(each.read_text()) for each in (folder / "objects").iterdir()]
    known = control.read(folder)
    assert len(written) == len(known.parts) + 1
    for version in VERSIONS:
        for job in written:
            validate(job, version, strict=True)


def test_kubernetes_job_of_a_sweep_lets_tasks_fail_and_a_gang_ends_with_its_first_pod() -> None:
    spec = made(SWEEP)["spec"]
    assert (spec["completions"], spec["backoffLimitPerIndex"]) == (3, 0)
    assert "successPolicy" not in spec
    spec = made(GANG)["spec"]
    assert (spec["completions"], spec["backoffLimit"]) == (4, 0)
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


@pytest.mark.parametrize(
    ("part", "plan", "queue", "most", "width"),
    [
        (SWEEP, PLAN, None, 0, 3),
        (SWEEP, PLAN, None, 2, 3),
        (SWEEP, LIMITED, None, 0, 2),
        # A queue would wait for as many nodes as there are tasks.
        (SWEEP, PLAN, "nd", 2, 2),
        (SWEEP, PLAN, "nd", 8, 3),
        # All of them or none: `max_parallel` counts tasks.
        (GANG, LIMITED, None, 0, 4),
        (GANG, PLAN, "nd", 2, 4),
        # As many pods as the nodes have shares.
        (SHARES, PLAN, "nd", 2, 16),
        (SHARES, PLAN, "nd", 0, 20),
        (SHARES, PLAN, None, 0, 20),
    ],
)
def test_kubernetes_job_has_as_many_pods_at_a_time_as_plan_and_queue_allow(
    part: Part, plan: RunPlan, queue: str | None, most: int, width: int
) -> None:
    job = made(part, plan, replace(SETTINGS, queue=queue, most=most))
    assert job["spec"]["parallelism"] == width


@pytest.mark.parametrize("part", [SWEEP, GANG])
def test_kubernetes_job_ignores_disrupted_and_terminated_pods(part: Part) -> None:
    spec = made(part)["spec"]
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    told = {"operator": "In", "values": [143], "containerName": "task"}
    # No rule fails the Job or an index: it would also apply to the pods of a suspended Job.
    assert spec["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": disrupted},
        {"action": "Ignore", "onExitCodes": told},
    ]
    # A second pod of an index begins when the first has saved its work and is gone.
    assert spec["podReplacementPolicy"] == "Failed"


def test_kubernetes_pod_grace_period_is_that_of_the_plan_plus_time_to_report() -> None:
    assert pod_of(made(GANG))["terminationGracePeriodSeconds"] == 50
    longest = RunPlan(RUN, "/x", grace=30 * 86400.0 * 1000)
    assert pod_of(made(GANG, longest))["terminationGracePeriodSeconds"] == 2**31 - 1


def test_kubernetes_pod_deadline_exceeds_the_timeouts_of_its_task() -> None:
    assert "activeDeadlineSeconds" not in pod_of(made(SWEEP))
    # Three attempts, each with its grace, and the time before and after.
    assert pod_of(made(SWEEP, LIMITED))["activeDeadlineSeconds"] > 3 * (60 + 10)
    endless = RunPlan(RUN, "/x", timeout=36500 * 86400.0, retries=1)
    assert pod_of(made(SWEEP, endless))["activeDeadlineSeconds"] == 2**31 - 1
    # A deadline of the Job would count its wait for nodes.
    assert "activeDeadlineSeconds" not in made(SWEEP, LIMITED)["spec"]
    # A first pod has begun while the others wait for their nodes, which may be started again.
    patient = replace(SETTINGS, patience=SETTINGS.patience + 1000)
    for part, more in ((GANG, MOST_WAITS * 1000), (SWEEP, 0)):
        usual, long = (
            pod_of(made(part, LIMITED, each))["activeDeadlineSeconds"]
            for each in (SETTINGS, patient)
        )
        assert long - usual == more


def test_kubernetes_pod_of_a_task_has_no_rights_in_the_cluster() -> None:
    pod = pod_of(made(SWEEP))
    assert pod["serviceAccountName"] == "fairway-task"
    assert pod["automountServiceAccountToken"] is False
    controller = pod_of(manifests.controller_job(RUN, 0, SETTINGS, COMMAND))
    assert controller["serviceAccountName"] == "fairway-head"
    assert controller["containers"][0]["image"] == "python:3.12-slim"
    # It starts pods, and needs no GPU.
    assert "nvidia.com/gpu" not in json.dumps(controller)
    assert "tolerations" not in controller
    settings = replace(SETTINGS, head_tolerations=("CriticalAddonsOnly",))
    controller = pod_of(manifests.controller_job(RUN, 0, settings, COMMAND))
    assert controller["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    assert pod_of(made(SWEEP, settings=settings)) == pod


def test_kubernetes_job_in_a_queue_starts_suspended() -> None:
    job = made(GANG, settings=QUEUED)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "nd"
    assert job["spec"]["suspend"] is True
    assert "suspend" not in made(GANG)["spec"]
    assert "kueue.x-k8s.io/queue-name" not in made(GANG)["metadata"]["labels"]


def test_kubernetes_pod_requests_the_entire_node_with_equal_limits() -> None:
    [container] = pod_of(made(SWEEP))["containers"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"]["rdma/ib"] == "8"
    assert "resources" not in pod_of(made(SWEEP, settings=PLAIN))["containers"][0]


def test_kubernetes_pod_with_a_share_requests_it_and_prefers_shared_nodes() -> None:
    pod = pod_of(made(SHARES))
    [container] = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "10", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "10", "nvidia.com/gpu": "1"},
    }
    # A node that is already shared has room for it, and other nodes stay undivided.
    [near] = pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = made(SHARES)["spec"]["template"]["metadata"]["labels"]
    wanted = near["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert wanted.items() <= labels.items()
    assert not wanted.items() <= made(SWEEP)["spec"]["template"]["metadata"]["labels"].items()
    assert "affinity" not in pod_of(made(SWEEP))


def test_kubernetes_pod_without_gpus_sees_no_nvidia_devices() -> None:
    """An image that asks NVIDIA's runtime for all GPUs would otherwise get those of other tasks."""
    [container] = pod_of(made(CORES))["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert container["resources"]["limits"] == {"cpu": "4"}
    [container] = pod_of(made(SHARES))["containers"]
    assert "NVIDIA_VISIBLE_DEVICES" not in json.dumps(container)


GPU, OF_AMD = "nvidia.com/gpu", "amd.com/gpu"
ND = {"cpu": "86", "memory": "1710Gi", GPU: "8", "rdma/ib": "8"}
QUARTER = {"cpu": "21", "memory": "437760Mi", GPU: "2"}  # without an adapter
LARGE = {"cpu": "80", "memory": "100Gi", GPU: "8"}
HALF = {"cpu": "40", "memory": "51200Mi", GPU: "1"}  # as much memory as of the cores


@pytest.mark.parametrize(
    ("resources", "wanted", "asked", "part", "room"),
    [
        (ND, ResourceRequest(gpus=2), QUARTER, 0.25, 4),
        (LARGE, ResourceRequest(gpus=1, cores=40), HALF, 0.5, 2),
        (
            {"cpu": "4", OF_AMD: "8"},
            ResourceRequest(gpus=1),
            {"cpu": "500m", OF_AMD: "1"},
            0.125,
            8,
        ),
        ({"cpu": "3500m"}, ResourceRequest(cores=3), {"cpu": "3"}, 1.0, 1),
        ({GPU: "8"}, ResourceRequest(gpus=1), {GPU: "1"}, 0.125, 8),
        ({"cpu": "8"}, None, {"cpu": "8"}, None, 1),
    ],
    ids=[
        "GPUs, with cores and memory, and no adapter",
        "as much memory as of the cores",
        "more GPUs than cores",
        "no whole number",
        "nothing but GPUs",
        "the whole",
    ],
)
def test_kubernetes_shares_compute_resources_part_and_tasks_per_node(
    resources: dict[str, str],
    wanted: ResourceRequest | None,
    asked: dict[str, str],
    part: float | None,
    room: int,
) -> None:
    assert settings.resources_of(resources, wanted) == asked
    assert settings.node_fraction_of(resources, wanted) == part
    assert settings.on_one_node(resources, wanted) == room


def test_kubernetes_settings_are_read_from_target_and_job(tmp_path: Any) -> None:
    target = {
        "mounts": {"data": "/data", "home": "/home"},
        "kubernetes": {
            "image": "usual:1",
            "head_image": "python:3.12-slim",
            "service_account": "t",
            "head": "h",
            "queue": "nd",
            "selector": {"agentpool": "nd"},
            "tolerations": ["team"],
            "volumes": {"data": "claim"},
        },
    }
    (tmp_path / "target.json").write_text(json.dumps(target))
    (tmp_path / "job.json").write_text("{}")
    found = of_run(tmp_path, {"cpu": "4"})
    assert (found.image, found.shm_size, found.queue) == ("usual:1", "", "nd")
    # Only mounts with a claim are present.
    assert (found.volumes, found.paths) == ({"data": "claim"}, {"data": "/data"})
    own = {"container": {"image": "own:2", "shm_size": "512m"}}
    (tmp_path / "job.json").write_text(json.dumps(own))
    found = of_run(tmp_path, {"cpu": "4"})
    assert (found.image, found.shm_size) == ("own:2", "512Mi")
    [shm] = [
        each for each in pod_of(made(SWEEP, settings=found))["volumes"] if each["name"] == "shm"
    ]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "512Mi"}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        *(("1", 1), ("500m", 0.5), ("1Ki", 1024), ("2M", 2_000_000), ("1e3", 1000)),
        *((text, None) for text in ("", "x", "1 G", "1KK", "--1")),
    ],
)
def test_kubernetes_quantity_is_parsed_or_refused(text: str, amount: float | None) -> None:
    if amount is not None:
        assert float(parse(text)) == amount
        return
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)
