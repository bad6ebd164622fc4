"""Jobs for two partitions of a real Slurm, of which the first has no nodes for them."""

import json
from pathlib import Path

import pytest
from program import Fairway

from fairway_simulator.slurm import SlurmCluster

pytestmark = pytest.mark.nightly

BOTH = ("--target", "slurm-sim,spare")


@pytest.fixture
def spare(slurm: SlurmCluster, fairway: Fairway) -> SlurmCluster:
    """The cluster, with a second partition of the same nodes."""
    slurm.run("scontrol", "create", "PartitionName=spare", "Nodes=ALL", "State=UP")
    spare = {**slurm.target_of("spare"), "name": "spare", "nodes": {"min": 3, "max": 3}}
    project = json.dumps({"targets": [slurm.target, spare]})
    (fairway.folder / "fairway.yaml").write_text(project, encoding="utf-8")
    return slurm


def _job(fairway: Fairway) -> tuple[Path, Path]:
    """A job that writes its partition for each time that it runs, and where."""
    ran = fairway.folder.with_name(f"{fairway.folder.name}-ran")
    return fairway.job(f"echo $SLURM_JOB_PARTITION >> {ran}", template="plain"), ran


@pytest.mark.parametrize("state", ["down", "drain"])
def test_a_partition_that_starts_nothing_is_passed_over(
    fairway: Fairway, spare: SlurmCluster, state: str
) -> None:
    spare.run("scontrol", "update", "PartitionName=sim", f"State={state}")
    job, ran = _job(fairway)
    done = fairway("submit", job, *BOTH, "--run-id", "both", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"`slurm-sim` was passed over: the partition is {state}" in done.stderr
    assert ran.read_text() == "spare\n"
    facts = fairway.show("both")
    assert (facts["target"], facts["state"]) == ("spare", "succeeded")
    jobs = spare.run("squeue", "-h", "-t", "all", "--name", "both", "-o", "%P").split()
    assert jobs == ["spare"]


def test_slurm_fallback_refused_by_all_partitions_records_no_run(
    fairway: Fairway, spare: SlurmCluster
) -> None:
    for name in ("sim", "spare"):
        spare.run("scontrol", "update", f"PartitionName={name}", "State=DRAIN")
    fairway.refused(
        "submit",
        _job(fairway)[0],
        *BOTH,
        "--run-id",
        "refused",
        says="`slurm-sim` was passed over: Slurm refuses the job",
    )
    assert not (fairway.folder / ".fairway" / "runs" / "refused").exists()
