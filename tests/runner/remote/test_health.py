"""Findings of `doctor` on a cluster whose host has answered, for each engine that has a host."""

from dataclasses import replace
from typing import Any

import pytest
from endings import refused
from targets import target_of

from fairway_agent.shared.reports import Health, HeldJob, NodeReport, NodesReport
from fairway_core.findings import Finding
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_runner.engines.slurm import is_unfit
from fairway_runner.jobs.job import Job

NOW = 1_000_000.0
ACCESS: dict[str, dict[str, Any]] = {
    "ssh": {"host": "main"},
    "slurm": {"host": "login"},
    "kubernetes": {"selector": {"agentpool": "nd"}, "rdma": "rdma/ib", "queue": "nd"},
}
ROLES = {"ssh": "main host", "slurm": "login host", "kubernetes": "head pod"}
# Healthy nodes.
NODES = {
    "ssh": NodeReport("n1", address="10.0.0.1", age=5.0),
    "slurm": NodeReport("n1", "idle~"),
    "kubernetes": NodeReport("n1", "ready", adapters="8"),
}
FIT = Health(1 << 40, NOW, available="up", claims={"claim": ""})


def target(engine: str, **fields: Any) -> Target:
    facts = {"nodes": {"min": 2, "max": 2}, "mounts": {"data": "/data"}}
    facts |= {"vm_size": "Standard_ND96isr_H100_v5", **fields}
    return target_of(engine, ACCESS[engine], **facts)


def found(where: Target, nodes: tuple[NodeReport, ...], **health: Any) -> list[Finding]:
    engine = engine_for(where)
    assert isinstance(engine, RemoteEngine)
    report = NodesReport(nodes, replace(FIT, **health))
    return list(engine.findings_of(report, NOW, NOW + 1))


SCHEDULER = "fairway: instances that never joined: 4, round 3 of 3: the partition is down"
FOLDER = "the shared folder /data/fairway"


@pytest.mark.parametrize(
    ("engine", "health", "node", "said"),
    [
        *((engine, {}, {}, []) for engine in ROLES),
        *(
            (engine, health, {}, said)
            for engine, role in ROLES.items()
            for health, said in (
                ({"fault": "Read-only"}, [f"unwritable-folder: {FOLDER} cannot be used: Read-o"]),
                ({"free": 100 << 20}, [f"full-disk: {FOLDER} has 100 MiB left"]),
                ({"fault": "full", "free": 0}, ["unwritable-folder: ", "full-disk: "]),
                *(
                    ({"time": time}, [f"skewed-clock: the {role}'s clock differs by 90 s from"])
                    for time in (NOW - 90, NOW + 91)
                ),
            )
        ),
        ("ssh", {"has_ssh": False}, {}, ["missing-tool: the main host has no ssh"]),
        *(
            ("ssh", {}, node, [f"{said}", "missing-nodes: 1 of 2 nodes are up"])
            for node, said in (
                (
                    {"fresh": False, "age": 600.0},
                    "silent-node: the node n2 has been silent for 10 min",
                ),
                (
                    {"reason": "7 of 8 GPUs"},
                    "unwell-node: the node n2 is unhealthy, and gets no tasks: 7 of 8 GPUs",
                ),
                (
                    {"unreachable": True},
                    "silent-node: the node n2 takes no connection from the main host",
                ),
            )
        ),
        ("slurm", {"available": "down"}, {}, ["no-partition: Slurm's partition `nd` is down"]),
        ("slurm", {"available": "missing"}, {}, ["no-partition: Slurm's partition `nd` is miss"]),
        (
            "slurm",
            {"held": (HeldJob("7", "digits-abc", "JobHeldAdmin"),)},
            {},
            ["held-job: Slurm holds the job 7 (digits-abc): JobHeldAdmin"],
        ),
        (
            "slurm",
            {},
            {"state": "drained", "reason": "XID 79"},
            ["unfit-node: the node n2 is drained: XID 79"],
        ),
        (
            "slurm",
            {"available": "down"},
            {"state": "down~", "reason": SCHEDULER},
            [f"no-partition: Slurm's partition `nd` is down: {SCHEDULER}", "unfit-node: "],
        ),
        (
            "kubernetes",
            {"claims": {"claim": "it is Pending"}},
            {},
            ["unfit-claim: the claim claim cannot be used: it is Pending"],
        ),
        (
            "kubernetes",
            {"queue": "there is none of that name"},
            {},
            ["unfit-queue: nothing starts from the queue nd: there is none of that name"],
        ),
        (
            "kubernetes",
            {"lacks": ("list events", "get clusterqueues.kueue.x-k8s.io", "\x1b[2Jmore")},
            {},
            ["no-rights: the account of the head pod may not list events, get clusterqueues.ku"],
        ),
        (
            "kubernetes",
            {},
            {"state": "not ready", "reason": "kubelet stopped posting"},
            ["unfit-node: the node n2 is not ready: kubelet stopped posting"],
        ),
        (
            "kubernetes",
            {},
            {"adapters": ""},
            ["unfit-node: the node n2 offers none of 8 rdma/ib"],
        ),
    ],
)
def test_health_reports_each_fault_with_a_hint(
    engine: str, health: dict[str, Any], node: dict[str, Any], said: list[str]
) -> None:
    nodes = NODES[engine], replace(NODES[engine], name="n2", **node)
    told = found(target(engine), nodes, **health)
    assert [
        f"{each.id}: {each.message}"[: len(wanted)] for each, wanted in zip(told, said, strict=True)
    ] == said
    assert all(each.hint for each in told)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({}, "fairway targets prepare nd --apply, by someone who may create roles"),
        ({"environment": "h100"}, "its environment assigns them: fairway deploy h100"),
    ],
)
def test_health_hint_for_missing_rights_depends_on_the_creator_of_the_head(
    fields: dict[str, str], hint: str
) -> None:
    nodes = (NODES["kubernetes"],)
    [finding] = found(target("kubernetes", **fields), nodes, lacks=("list events",))
    assert finding.hint == hint


def test_health_reports_no_nodes_only_for_a_target_with_a_minimum() -> None:
    assert found(target("kubernetes", nodes={"min": 0, "max": 4}), ()) == []
    [finding] = found(target("kubernetes"), ())
    assert finding.message == "no node has the labels agentpool=nd"


UNFIT = ("down", "down~", "draining", "drained", "idle*", "fail")


@pytest.mark.parametrize(
    "state", ["idle", "idle~", "mixed#", "allocated", "completing", "idle%", *UNFIT]
)
def test_slurm_node_is_unfit_if_down_drained_failed_or_not_responding(state: str) -> None:
    assert is_unfit(state) is (state in UNFIT)


@pytest.mark.parametrize("engine", ["ssh", "slurm"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nodes": 3}, "too-many-nodes"),
        ({"nodes": 2, "container": {"image": "a"}}, "no-containers"),
        ({"nodes": 2, "container": {"image": "a"}, "template": "every-node"}, ""),
        ({"container": {"image": "a"}}, ""),
    ],
)
def test_remote_engine_refuses_a_job_that_its_cluster_can_never_run(
    engine: str, fields: dict[str, Any], expected: str
) -> None:
    job = Job.model_validate({"name": "x", "command": "true", **fields})
    check = lambda: engine_for(target(engine)).require(job, ())  # noqa: E731
    assert (refused(check).id if expected else check() or "") == expected
