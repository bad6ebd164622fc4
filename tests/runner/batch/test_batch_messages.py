"""What is said of a pool, a target and a run that cannot do what is wanted, and what to type."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.fanout import sshd_mesh
from fairway_core.findings import Finding, UserError
from fairway_core.target import Target
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import login, pools
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.jobs.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_runner.runs.store import Run

RECORD: dict[str, Any] = {
    "name": "spot",
    "engine": "batch",
    "nodes": {"min": 0, "max": 8},
    "storage": {"account_url": "https://x.blob.core.windows.net", "containers": []},
    "batch": {"endpoint": "https://b", "pool": "pool", "identity": "/identities/nodes"},
}
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
    """An account that describes its pool and its nodes so."""
    return SimpleNamespace(
        target=Target.model_validate({**RECORD, **target}),
        pool="pool",
        pool_facts=lambda: pool,
        calls=SimpleNamespace(is_here=False),
        nodes=lambda: iter(nodes),
    )


def refused(call: Callable[[], object]) -> Finding:
    with pytest.raises(UserError) as caught:
        call()
    (finding,) = caught.value.findings
    return finding


def job(nodes: int = 1) -> Any:
    return Job(name="x", command="true", nodes=nodes)


HELD = {"storage": {**RECORD["storage"], "containers": ["outputs", "code"]}}
BROKEN = {
    "id": "tvm-1",
    "state": "unusable",
    "errors": [{"code": "DiskFull", "message": "There is not enough disk space on the node"}],
}


@pytest.mark.parametrize(
    ("there", "nodes", "found"),
    [
        (account(storage={**HELD["storage"], "containers": ["code"]}), 1, "no-container"),
        (account(**HELD, batch={**RECORD["batch"], "identity": ""}), 1, "no-identity"),
        (account(**HELD), 9, "too-many-nodes"),
        (account(**HELD, batch={**RECORD["batch"], "mpi": False}), 2, "no-mpi"),
        (account(nodes=(BROKEN, {**BROKEN, "id": "tvm-2"}), **HELD), 1, "unfit-nodes"),
        (account({**POOL, "state": "deleting"}, **HELD), 1, "pool-disabled"),
    ],
)
def test_job_that_cannot_run_is_refused(there: Any, nodes: int, found: str) -> None:
    finding = refused(lambda: pools.require_pool(there, job(nodes)))
    assert finding.id == found
    assert finding.hint


START = {"id": "tvm-1", "state": "starttaskfailed"}
OURS = "maxNodes = 2;\n$TargetDedicatedNodes = min(maxNodes, 0);"


@pytest.mark.parametrize(
    ("pool", "fields", "found"),
    [
        ({"enableInterNodeCommunication": False}, {"nodes": 2}, "no-mpi"),
        ({"taskSlotsPerNode": 2}, {"nodes": 2}, "too-many-slots"),
        ({}, {"nodes": 3}, "too-few-nodes: fairway pool resize spot 3"),
        ({"enableAutoScale": True, "autoScaleFormula": OURS}, {"nodes": 3}, "too-many-nodes"),
        (
            {"targetDedicatedNodes": 3, "resizeErrors": [{"code": "AccountCoreQuotaReached"}]},
            {"nodes": 3},
            "resize-error",
        ),
        ({}, {"container": {"image": "train:1"}}, "no-containers"),
        (
            {"virtualMachineConfiguration": {"containerConfiguration": {"type": "x"}}},
            {},
            "no-container-image",
        ),
    ],
)
def test_pool_that_cannot_run_a_job_refuses_it(
    pool: dict[str, Any], fields: dict[str, Any], found: str
) -> None:
    one = Job(name="x", command="true", **fields)
    finding = refused(lambda: pools.require_pool(account({**POOL, **pool}, **HELD), one))
    assert f"{finding.id}: {finding.hint}".startswith(found)


def test_pool_with_other_slots_than_the_target_says_refuses_the_job() -> None:
    there = account(**HELD, batch={**RECORD["batch"], "mpi": False, "task_slots": 8})
    assert refused(lambda: pools.require_pool(there, job())).id == "other-slots"


def test_pool_that_is_not_there_is_named() -> None:
    there = account(**HELD)

    def missing() -> None:
        raise ServiceError(Finding("service", "no"), status=404, code="PoolNotFound")

    there.pool_facts = missing
    assert refused(lambda: pools.require_pool(there, job())).id == "no-pool"
    assert [each.id for each in pools._of_account(there)] == ["no-pool"]


def test_start_task_that_failed_is_quoted() -> None:
    there = account(nodes=(START,), **HELD)
    there.node_file = lambda *_: b"the disk is broken\n"
    finding = refused(lambda: pools.require_pool(there, job()))
    assert (finding.id, "the disk is broken" in finding.message) == ("unfit-nodes", True)
    [finding] = pools._of_account(there)
    assert (finding.id, "the disk is broken" in finding.message) == ("unfit-node", True)


def test_a_pool_without_nodes_lets_nobody_in() -> None:
    found = refused(lambda: login._any_node(account(nodes=(BROKEN,))))
    assert found.message == "the pool `pool` has no nodes now"
    assert found.hint == "start one: fairway pool resize spot 1"


def test_a_pool_that_scales_by_itself_is_not_resized() -> None:
    there = account({**POOL, "enableAutoScale": True})
    found = refused(lambda: pools.resize(there, 3))
    assert found.message == "the pool `pool` scales by its formula"
    assert found.hint == "change the limits in the environment file, and deploy it"


def test_the_doctor_says_why_a_pool_does_not_grow() -> None:
    errors = [{"code": "AccountCoreQuotaReached", "message": {"value": "no cores left"}}]
    there = account({**POOL, "resizeErrors": errors}, **HELD)
    (found,) = pools._of_account(there)
    assert found.message.startswith("the pool cannot grow: ")
    assert "AccountCoreQuotaReached" in found.message
    assert found.hint == "ask for more quota, or try another region, zone or VM size"


@pytest.mark.parametrize(
    ("is_here", "sshd", "ids"),
    [(True, None, ["no-sshd"]), (True, "/usr/sbin/sshd", []), (False, None, [])],
)
def test_the_doctor_of_a_stand_in_looks_for_sshd_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, is_here: bool, sshd: str | None, ids: list[str]
) -> None:
    monkeypatch.setattr(sshd_mesh, "program", lambda: sshd)
    there = account(**HELD)
    there.calls.is_here = is_here
    found = list(pools._of_account(there))
    assert [each.id for each in found] == ids
    assert all("openssh-server" in (each.hint or "") for each in found)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> BatchEngine:
    """One that asks nobody."""
    monkeypatch.setattr(BatchEngine, "refresh", lambda *_, **__: None)
    found = BatchEngine.__new__(BatchEngine)
    found._poller = SimpleNamespace(refresh=lambda *_, **__: None)  # type: ignore[assignment]
    return found


def test_a_run_that_has_not_begun_has_no_host(
    engine: BatchEngine, make_run: Callable[..., Run]
) -> None:
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued")
    found = refused(lambda: engine.main_host(run))
    assert found.message == "no task of job-aaaaaa has begun"
    assert found.hint == "see what it waits for: fairway show job-aaaaaa"


def test_batch_wait_for_an_unsubmitted_run_hints_at_submit_resume(
    engine: BatchEngine, make_run: Callable[..., Run]
) -> None:
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued", engine="batch")
    found = refused(lambda: engine.wait(run))
    said = "submission was interrupted; resume it with: fairway submit --resume job-aaaaaa"
    assert found.message == f"job-aaaaaa was not submitted: {said}"
