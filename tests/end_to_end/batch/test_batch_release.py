"""`setup: {release: …}`, a command that runs on each node of a run when the run has ended."""

import pytest
from batch_service import Batch
from program import Gate, Signs


def setup(signs: Signs, kept: str = "kept") -> dict[str, str]:
    """Returns a setup that leaves a file on its node, and a release that prints the file."""
    return {
        "command": f"echo {kept} > ../left",
        "release": f'echo "$(cat ../left) of $FAIRWAY_RUN: $FAIRWAY_TASK" >{signs}',
    }


@pytest.mark.parametrize("command", ["true", "exit 3"])
def test_batch_release_runs_on_each_node_of_run(batch: Batch, signs: Signs, command: str) -> None:
    job = batch.fairway.job(command, template="plain", nodes=2, setup=setup(signs))
    run = batch.submit(job)
    assert signs.lines(2) == [f"kept of {run.id}: release"] * 2
    run.wait()
    assert run.exit_code == (0 if command == "true" else 3)


def test_batch_release_runs_after_cancel_and_after_failed_setup(
    batch: Batch, signs: Signs, gate: Gate
) -> None:
    held = f"echo up >{signs}; read -r _ <{gate.path}"
    run = batch.submit(batch.fairway.job(held, template="plain", setup=setup(signs)))
    signs.lines(1)
    batch.ok("cancel", run.id)
    assert signs.lines(2)[1] == f"kept of {run.id}: release"
    failing = setup(signs, "half")
    failing["command"] += "; exit 5"
    other = batch.submit(batch.fairway.job("true", template="plain", setup=failing))
    assert signs.lines(3)[2] == f"half of {other.id}: release"
    other.wait()
    assert other.exit_code == 5
