"""Word of runs on a pool: sent by a node of it when the job ends, even if nobody looks."""

import pytest
from batch_service import Batch
from program import Gate, Pipe
from receivers import Receiver


@pytest.fixture
def receiver(batch: Batch, receiver: Receiver) -> Receiver:
    """A receiver that nodes can reach."""
    batch.service.lead_nodes_to(receiver.port)
    return receiver


def test_of_a_sweep_and_of_its_retry_one_word_is_sent(batch: Batch, receiver: Receiver) -> None:
    """By one of its nodes, though the receiver fails at first; nobody waits for the run. Tasks that
    the retry leaves alone count."""
    receiver.answers += [503]
    sweep = {"points": [{"grid": {"x": [0, 3, 0]}}]}
    notify = {"webhook": receiver.url}
    command = 'test {{ params.x }} = 0 || test "$FAIRWAY_ATTEMPT" = 1'
    job = batch.fairway.job(command, template="plain", sweep=sweep, notify=notify)
    run = batch.submit(job)
    said = receiver.next()
    assert (said["run"], said["state"]) == (run.id, "failed")
    assert said["tasks"] == {"succeeded": 2, "failed": 1}
    run.wait()
    assert receiver.seen == 2
    batch.ok("retry", run.id)
    said = receiver.next()
    assert (said["state"], said["tasks"]) == ("succeeded", {"succeeded": 3})


@pytest.mark.nightly
def test_of_run_that_is_cancelled(batch: Batch, pipe: Pipe, gate: Gate, receiver: Receiver) -> None:
    held = f"exec 9>{pipe.path}; echo up >&9; read -r _ <{gate.path}"
    sweep = {"max_parallel": 1, "points": [{"repeat": 2}]}
    job = batch.fairway.job(
        held, template="plain", sweep=sweep, notify={"webhook": receiver.url, "on": ["failed"]}
    )
    run = batch.submit(job)
    pipe.lines(1)
    batch.ok("cancel", run.id)
    said = receiver.next()
    assert (said["state"], said["tasks"]) == ("cancelled", {"cancelled": 2})
