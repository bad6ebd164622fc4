"""Word of runs on a pool: sent by a node of it when the job ends, even if nobody looks."""

import pytest
from batch_service import Batch
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
