"""Runs on two partitions of a real Slurm, which share a folder: the first has no nodes for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Fairway, Signs

    from fairway_simulator.slurm import SlurmCluster

pytestmark = pytest.mark.nightly

BOTH = ("--target", "slurm-sim,spare")


@pytest.fixture
def spare(slurm: SlurmCluster, fairway: Fairway) -> SlurmCluster:
    """The cluster, with a second partition of the same nodes; the first is down."""
    slurm.run("scontrol", "create", "PartitionName=spare", "Nodes=ALL", "State=UP")
    slurm.run("scontrol", "update", "PartitionName=sim", "State=DOWN")
    spare = {**slurm.target_of("spare"), "name": "spare", "nodes": {"min": 3, "max": 3}}
    project = json.dumps({"targets": [slurm.target, spare]})
    (fairway.folder / "fairway.yaml").write_text(project, encoding="utf-8")
    return slurm


def _job(fairway: Fairway) -> tuple[Path, Path]:
    """A job that writes its partition for each time that it runs, and where."""
    ran = fairway.folder.with_name(f"{fairway.folder.name}-ran")
    return fairway.job(f"echo $SLURM_JOB_PARTITION >> {ran}", template="plain"), ran


def test_a_partition_that_is_down_is_left(fairway: Fairway, spare: SlurmCluster) -> None:
    job, ran = _job(fairway)
    run = fairway.submit(job, *BOTH)
    facts = fairway.show_waiting(run)
    assert (facts["target"], facts["reason"]) == ("slurm-sim", "the partition is down")
    assert facts["next_targets"] == ["spare"]
    waited = fairway("wait", run)
    assert waited.returncode == 0, waited.stderr
    assert f"{run} moves from slurm-sim to spare: the partition is down" in waited.stderr
    assert ran.read_text() == "spare\n"
    facts = fairway.show(run)
    assert (facts["target"], facts["state"]) == ("spare", "succeeded")
    # The job that was cancelled and the one that ran.
    jobs = spare.run("squeue", "-h", "-t", "all", "--name", run, "-o", "%P %T").splitlines()
    assert "sim CANCELLED" in jobs
    assert [job.split()[0] for job in sorted(jobs)] == ["sim", "spare"]


def test_one_that_began_as_it_was_to_leave_stays(
    fairway: Fairway, spare: SlurmCluster, signs: Signs
) -> None:
    """What it has done there is not done twice."""
    spare.run("scontrol", "update", "PartitionName=sim", "State=UP")
    place = "$SLURM_JOB_PARTITION"
    command = f"echo {place} >>{signs}; [ {place} = spare ] || sleep 600"
    run = fairway.submit(fairway.job(command, template="plain"), *BOTH)
    assert signs.lines(1) == ["sim"]
    path = fairway.folder / ".fairway" / "runs" / run / "fallback.json"
    found = json.loads(path.read_text())
    found["tries"][0] |= {"ended": found["tries"][0]["began"], "reason": "no nodes"}
    path.write_text(json.dumps({**found, "phase": "leaving"}))
    waited = fairway("wait", run)
    assert waited.returncode == 130, waited.stderr + fairway.within("show", run).stdout
    facts = fairway.show(run)
    assert (facts["target"], facts["state"]) == ("slurm-sim", "cancelled")
    assert facts["next_targets"] == []
    assert facts["reason"].startswith("it started on slurm-sim just before it was to leave")
    jobs = spare.run("squeue", "-h", "-t", "all", "--name", run, "-o", "%P").split()
    assert jobs == ["sim"]


def test_what_slurm_refuses_goes_elsewhere_at_once(fairway: Fairway, spare: SlurmCluster) -> None:
    spare.run("scontrol", "update", "PartitionName=sim", "State=UP", "AllowAccounts=nobody")
    spare.run("scontrol", "update", "PartitionName=sim", "State=DRAIN")
    job, ran = _job(fairway)
    done = fairway("submit", job, *BOTH, "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "moves from slurm-sim to spare: Slurm refuses the job" in done.stderr
    assert ran.read_text() == "spare\n"


def test_where_slurm_refuses_it_everywhere_nothing_is_left(
    fairway: Fairway, spare: SlurmCluster
) -> None:
    for name in ("sim", "spare"):
        spare.run("scontrol", "update", f"PartitionName={name}", "State=DRAIN")
    done = fairway("submit", _job(fairway)[0], *BOTH, "--run-id", "refused")
    assert done.returncode == 2
    assert "`slurm-sim` was tried before: Slurm refuses the job" in done.stderr
    assert not (fairway.folder / ".fairway" / "runs" / "refused").exists()
