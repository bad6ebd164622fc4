"""`setup: {release: …}`: what each node of a run does when the run has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Batch, Gate, Pipe, Receiver


@pytest.fixture
def pipe(pipe: Pipe) -> Iterator[Pipe]:
    """One that stays open between those who write to it."""
    writer = os.open(pipe.path, os.O_WRONLY | os.O_NONBLOCK)
    yield pipe
    os.close(writer)


def setup(pipe: Pipe, kept: str = "kept") -> dict[str, str]:
    """A setup that leaves a file on its node, and a release that says what it finds there."""
    return {
        "command": f"echo {kept} > ../left",
        "release": f'echo "$(cat ../left) of $FAIRWAY_RUN: $FAIRWAY_TASK" >{pipe.path}',
    }


@pytest.mark.parametrize("command", ["true", "exit 3"])
def test_batch_release_runs_on_each_node_of_the_run(batch: Batch, pipe: Pipe, command: str) -> None:
    job = batch.fairway.job(command, template="plain", nodes=2, setup=setup(pipe))
    run = batch.submit(job)
    assert pipe.lines(2) == [f"kept of {run.id}: release"] * 2
    run.wait()
    assert run.exit_code == (0 if command == "true" else 3)


def test_batch_release_runs_after_cancel_and_after_failed_setup(
    batch: Batch, pipe: Pipe, gate: Gate
) -> None:
    held = f"echo up >{pipe.path}; read -r _ <{gate.path}"
    run = batch.submit(batch.fairway.job(held, template="plain", setup=setup(pipe)))
    pipe.lines(1)
    batch.ok("cancel", run.id)
    assert pipe.lines(2)[1] == f"kept of {run.id}: release"
    failing = setup(pipe, "half")
    failing["command"] += "; exit 5"
    other = batch.submit(batch.fairway.job("true", template="plain", setup=failing))
    assert pipe.lines(3)[2] == f"half of {other.id}: release"
    other.wait()
    assert other.exit_code == 5


def test_a_notification_does_not_wait_for_it(
    batch: Batch, pipe: Pipe, gate: Gate, receiver: Receiver
) -> None:
    batch.service.lead_nodes_to(receiver.port)
    held = setup(pipe)
    held["release"] = f"read -r _ <{gate.path}; {held['release']}"
    notify = {"webhook": receiver.url, "on": ["succeeded"]}
    run = batch.submit(batch.fairway.job("true", template="plain", setup=held, notify=notify))
    assert receiver.next()["run"] == run.id
    gate.open()
    assert pipe.lines(1) == [f"kept of {run.id}: release"]
