"""Runs on a pool that do not end by their own scripts: limits, and nodes lost too often."""

import json
from typing import Any

import pytest
from batch_service import Batch
from program import Gate, Pipe


def held(pipe: Pipe, gate: Gate) -> str:
    return f"echo attempt $FAIRWAY_ATTEMPT; exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"


def task_of(batch: Batch, run: str) -> dict[str, Any]:
    return json.loads(batch.ok("show", run, "--json"))["task_list"][0]


@pytest.mark.parametrize(
    ("notice", "limits", "reason"),
    [
        (0.0, {"node": 0}, "a node of it was lost; `retry: {node: 0}` is used up"),
        (8.0, {"preemption": 0}, "its nodes were taken away; `retry: {preemption: 0}` is used up"),
    ],
)
def test_batch_task_fails_when_lost_nodes_exceed_its_retry_limit(
    batch: Batch, pipe: Pipe, gate: Gate, notice: float, limits: dict[str, int], reason: str
) -> None:
    """Batch itself would start the task again, as it does after each of its own failures."""
    job = batch.fairway.job(
        held(pipe, gate), template="plain", retry={"error": 2, **limits}, checkpoint={"grace": "1s"}
    )
    run = batch.submit(job)
    pipe.lines(1)
    run.refresh()
    node = str(run.task_status(0).node)
    batch.service.preempt(node, **({"notice": notice} if notice else {}))
    run.wait()
    task = task_of(batch, run.id)
    assert (task["state"], task["exit_code"], task["reason"]) == ("failed", 5, reason)
    assert (task["attempts"], task["ends"]) == (1, {next(iter(limits)): 1})
