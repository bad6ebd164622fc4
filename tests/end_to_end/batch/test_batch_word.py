"""Notifications of runs on a pool: a node sends them when the job ends, though no client waits."""

import pytest
from batch_service import Batch
from receivers import Receiver


@pytest.fixture
def receiver(batch: Batch, receiver: Receiver) -> Receiver:
    """A receiver that nodes can reach."""
    batch.service.lead_nodes_to(receiver.port)
    return receiver


def test_batch_notification_is_sent_once_for_a_sweep_and_once_for_its_retry(
    batch: Batch, receiver: Receiver
) -> None:
    """A node sends it, even though the receiver fails at first and no client waits for the run. The
    retry's counts include the tasks that it did not repeat."""
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
