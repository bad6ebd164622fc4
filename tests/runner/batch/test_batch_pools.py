"""Capabilities of a pool, reasons why a run waits or is refused there, and hints."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import refused
from pool import refused as refusal
from targets import target_of

from fairway_agent.fanout import sshd_mesh
from fairway_runner.engines.batch import pools
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.jobs.job import Job
from fairway_runner.runs.store import Run

STORAGE = {"account_url": "https://x.blob.core.windows.net", "containers": []}
POOL = {
    "id": "pool",
    "state": "active",
    "allocationState": "steady",
    "enableInterNodeCommunication": True,
    "targetDedicatedNodes": 2,
    "currentDedicatedNodes": 2,
}


def account(
    pool: Mapping[str, Any] = POOL, nodes: tuple[dict[str, Any], ...] = (), **target: Any
) -> Any:
    """Returns an account with this pool and these nodes."""
    return SimpleNamespace(
        target=target_of("batch", **{"name": "spot", "storage": STORAGE, **target}),
        pool="pool",
        pool_facts=lambda: pool,
        calls=SimpleNamespace(is_here=False, soon=contextlib.nullcontext),
        nodes=lambda: iter(nodes),
    )


def engine_with(account: Any) -> BatchEngine:
    engine = BatchEngine(account.target)
    engine.account = account
    return engine


def job(**fields: Any) -> Any:
    return Job(name="x", command="true", **fields)


HELD = {"storage": {**STORAGE, "containers": ["outputs", "code"]}}
BROKEN = {
    "id": "tvm-1",
    "state": "unusable",
    "errors": [{"code": "DiskFull", "message": "There is not enough disk space on the node"}],
}


OURS = "maxNodes = 2;\n$TargetDedicatedNodes = min(maxNodes, 0);"


@pytest.mark.parametrize(
    ("pool", "target", "fields", "found"),
    [
        ({}, {"storage": {**STORAGE, "containers": ["code"]}}, {}, "no-container"),
        ({}, {"access": {"identity": ""}}, {}, "no-identity"),
        ({}, {}, {"nodes": 9}, "too-many-nodes"),
        ({}, {"access": {"mpi": False}}, {"nodes": 2}, "no-mpi"),
        ({}, {"nodes": (BROKEN, {**BROKEN, "id": "tvm-2"})}, {}, "unfit-nodes"),
        ({"state": "Deleting"}, {}, {}, "pool-disabled"),
        ({}, {"access": {"mpi": False, "task_slots": 8}}, {}, "other-slots"),
        ({"enableInterNodeCommunication": False}, {}, {"nodes": 2}, "no-mpi"),
        ({"taskSlotsPerNode": 2}, {}, {"nodes": 2}, "too-many-slots"),
        ({}, {}, {"nodes": 3}, "too-few-nodes: fairway pool resize spot 3"),
        (
            {"targetDedicatedNodes": 0, "targetLowPriorityNodes": 1},
            *({}, {"nodes": 2}, "too-few-nodes: fairway pool resize spot 2"),
        ),
        ({"enableAutoScale": True, "autoScaleFormula": OURS}, {}, {"nodes": 3}, "too-many-nodes"),
        (
            {"targetDedicatedNodes": 3, "resizeErrors": [{"code": "AccountCoreQuotaReached"}]},
            *({}, {"nodes": 3}, "resize-error"),
        ),
        ({}, {}, {"container": {"image": "train:1"}}, "no-containers"),
        (
            {"virtualMachineConfiguration": {"containerConfiguration": {"type": "x"}}},
            *({}, {}, "no-container-image"),
        ),
    ],
)
def test_batch_pool_refuses_a_job_that_cannot_run_there(
    pool: dict[str, Any], target: dict[str, Any], fields: dict[str, Any], found: str
) -> None:
    there = account({**POOL, **pool}, **{**HELD, **target})
    finding = refused(lambda: pools.require_pool(there, job(**fields)))
    assert f"{finding.id}: {finding.hint}".startswith(found)
    assert finding.hint


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"max_duration": "1h"}, "a run cannot be limited as a whole", "-s timeout=SPAN"),
        ({"max_cost": 5.0}, "a run cannot be limited as a whole", "-s max_cost=null"),
        ({"retry": {"node": 3}}, "Azure Batch does not count how", "-s retry.node=null"),
        (
            {"retries": 1, "idle_gpu": {"below": 5, "for": "30m"}},
            "would start again elsewhere",
            "-s retries=0",
        ),
    ],
)
def test_batch_pool_without_a_shared_folder_refuses_jobs_that_need_one(
    fields: dict[str, Any], message: str, hint: str
) -> None:
    one = job(**fields)
    finding = refused(lambda: pools.require_pool(account(**HELD), one))
    assert finding.id == "no-shared-folder"
    assert message in finding.message
    assert finding.message.endswith("`spot` mounts no file system that its nodes share")
    assert hint in finding.hint
    assert "add `mounts:` to its cluster" in finding.hint
    pools.require_pool(account(**HELD, mounts={"data": "/data"}), one)


NO_SIZE = {name: value for name, value in POOL.items() if "Nodes" not in name}


@pytest.mark.parametrize(
    "pool",
    [
        NO_SIZE,  # a pool of unknown size is not taken as empty
        # Only our own formulas have a known maximum.
        {**POOL, "enableAutoScale": True, "autoScaleFormula": "maxTemp = 1;"},
    ],
)
def test_batch_pool_of_unknown_size_accepts_the_job(pool: dict[str, Any]) -> None:
    pools.require_pool(account(pool, **HELD), job(nodes=2))


def test_batch_pool_that_does_not_exist_is_reported_as_no_pool() -> None:
    there = account(**HELD)
    there.pool_facts = Mock(side_effect=refusal(404, "PoolNotFound"))
    assert refused(lambda: pools.require_pool(there, job())).id == "no-pool"
    assert [each.id for each in pools._of_account(there)] == ["no-pool"]


def test_batch_pool_quotes_the_output_of_a_failed_start_task() -> None:
    there = account(nodes=({"id": "tvm-1", "state": "starttaskfailed"},), **HELD)
    there.node_file = lambda *_: b"the disk is broken\n"
    finding = refused(lambda: pools.require_pool(there, job()))
    assert (finding.id, "the disk is broken" in finding.message) == ("unfit-nodes", True)
    [finding] = pools._of_account(there)
    assert (finding.id, "the disk is broken" in finding.message) == ("unfit-node", True)


@pytest.mark.parametrize(
    ("node", "action"),
    [({"state": "offline"}, "resume"), ({"state": "unusable"}, "reimage")],
)
def test_batch_doctor_suggests_the_action_that_brings_a_node_back(
    node: dict[str, Any], action: str
) -> None:
    """A node that the user has drained is sound, and may still run a task."""
    [finding] = pools._of_account(account(nodes=({"id": "tvm-1", **node},), **HELD))
    assert finding.hint == f"fairway nodes {action} spot tvm-1"


def test_batch_pool_offers_a_shell_on_a_ready_node_first() -> None:
    nodes = tuple({"id": each, "state": each} for each in ("starting", "Idle", "running"))
    found = [engine_with(account(nodes=nodes[:count]))._any_node() for count in (1, 3)]
    assert found == ["starting", "Idle"]


def test_batch_pool_without_nodes_refuses_a_shell_and_one_with_autoscaling_a_resize() -> None:
    found = refused(lambda: engine_with(account(nodes=(BROKEN,))).shell(None))
    assert found.message == "the pool `pool` has no nodes now"
    assert found.hint == "start one: fairway pool resize spot 1"
    there = account({**POOL, "enableAutoScale": True})
    found = refused(lambda: engine_with(there).resize(1))
    assert found.message == "the pool `pool` scales by its formula"
    assert found.hint == "change the limits in the environment file, and deploy it"


def test_batch_pool_resize_error_is_reported_by_doctor_and_as_no_capacity() -> None:
    errors = [{"code": "AccountCoreQuotaReached", "message": {"value": "no cores left"}}]
    there = account({**POOL, "resizeErrors": errors}, **HELD)
    (found,) = pools._of_account(there)
    assert found.message.startswith("the pool cannot grow: AccountCoreQuotaReached")
    assert found.hint == "ask for more quota, or try another region, zone or VM size"
    assert engine_with(there).no_capacity(job()) == found.message
    assert engine_with(account(**HELD)).no_capacity(job()) == ""


@pytest.mark.parametrize(
    ("is_here", "sshd", "ids"),
    [(True, None, ["no-sshd"]), (True, "/usr/sbin/sshd", []), (False, None, [])],
)
def test_batch_doctor_of_a_local_simulator_requires_sshd_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, is_here: bool, sshd: str | None, ids: list[str]
) -> None:
    monkeypatch.setattr(sshd_mesh, "program", lambda: sshd)
    there = account(**HELD)
    there.calls.is_here = is_here
    found = list(pools._of_account(there))
    assert [each.id for each in found] == ids
    assert all("openssh-server" in (each.hint or "") for each in found)


def test_batch_doctor_reports_missing_containers_and_unfit_nodes() -> None:
    there: Any = account(nodes=(BROKEN,), **HELD)
    engine: Any = engine_with(there)
    missing = [refusal(404, f"no container {name}") for name in ("outputs", "code")]
    engine.storage = SimpleNamespace(blobs=Mock(side_effect=missing), calls=there.calls)
    found = [each.message for each in engine.doctor()]
    assert [call.args[0] for call in engine.storage.blobs.mock_calls] == ["outputs", "code"]
    assert found[:2] == ["no container outputs", "no container code"]
    assert len(found) == 3
    assert "tvm-1" in found[2]


def test_batch_run_that_is_queued_has_no_host(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchEngine, "refresh", lambda *_: None)
    engine = engine_with(account())
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued")
    for call in (lambda: engine.main_host(run), lambda: engine.enter(run, 0, 0, [])):
        assert refused(call).message == "task 0 of job-aaaaaa has no node yet"


def test_batch_nodes_show_only_the_run_that_is_running_on_them() -> None:
    """An ended run is not shown, and an idle node shows none."""
    tasks = [
        {"jobId": "old-aaaaaa", "taskState": "completed"},
        {"jobId": "new-bbbbbb", "taskState": "running"},
    ]
    nodes = [{"id": "a", "state": "running", "recentTasks": tasks}]
    nodes += [{"id": "b", "state": "idle", "recentTasks": tasks}, {"id": "c", "state": "running"}]
    found = engine_with(account(nodes=tuple(nodes))).nodes()
    assert [node.run for node in found] == ["new-bbbbbb", "", ""]


MINE = {"id": "mine", "state": "active", "priority": 0, "creationTime": "2026-11-23T08:00:00Z"}
NODES = "waiting for nodes; the pool has 2 running"


class Queue:
    """An account with these jobs and the number of waiting tasks of each."""

    def __init__(self, *jobs: tuple[str, str, int, str, int]) -> None:
        names = ("id", "state", "priority", "creationTime")
        self.waiting = {job[0]: job[4] for job in jobs}
        self.listed = [MINE, *(dict(zip(names, job[:4], strict=True)) for job in jobs)]
        self.asked: list[str] = []

    def pool_facts(self) -> dict[str, Any]:
        return {"allocationState": "steady"}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"state": "running"}] * 2

    def jobs(self) -> Iterator[dict[str, Any]]:
        yield from self.listed

    def task_counts(self, job: str) -> dict[str, int]:
        self.asked.append(job)
        return {"active": self.waiting[job], "running": 3}


BEFORE, AFTER = "2026-11-23T07:00:00Z", "2026-11-23T09:00:00Z"


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([], ""),
        ([("old", "active", 0, BEFORE, 1)], "; 1 task of 1 other job comes first"),
        (
            [("old", "active", 0, BEFORE, 4), ("high", "active", 500, AFTER, 1)],
            "; 5 tasks of 2 other jobs come first",
        ),
        ([("new", "active", 0, AFTER, 4), ("low", "active", -500, BEFORE, 4)], ""),
        ([("done", "completed", 900, BEFORE, 4), ("off", "disabled", 900, BEFORE, 4)], ""),
        ([("runs", "active", 0, BEFORE, 0)], ""),
        (
            [(f"j{n}", "active", 0, BEFORE, 2) for n in range(11)],
            "; at least 20 tasks of 10 other jobs come first",
        ),
    ],
)
def test_batch_waiting_reason_counts_tasks_and_jobs_that_come_first(
    jobs: list[tuple[str, str, int, str, int]], said: str
) -> None:
    account = Queue(*jobs)
    assert pools.why_waiting(account, MINE) == NODES + said  # type: ignore[arg-type]
    assert not {"new", "low"} & set(account.asked), "whose turn comes later"


def test_batch_waiting_reason_omits_other_jobs_if_task_counts_fail() -> None:
    account: Any = Queue(("old", "active", 0, BEFORE, 1))
    account.task_counts = Mock(side_effect=refusal(503, "ServerBusy"))
    assert pools.why_waiting(account, MINE) == NODES
