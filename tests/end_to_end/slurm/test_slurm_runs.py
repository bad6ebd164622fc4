"""Runs on a real Slurm: ends, queueing, launchers, inputs, containers; and nodes yet to come."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway, Gate, Signs
from programs import executable
from staged import check_staging, services
from waiting import until

from fairway_simulator.slurm import SlurmCluster
from fairway_simulator.ssh.services import running

TARGET = ("--target", "slurm-sim")


def failed(fairway: Fairway, job: Path, code: int) -> str:
    """Runs a job that must fail with that exit code, and returns the run."""
    done = fairway.within("submit", job, *TARGET, "--watch", "--json")
    assert done.returncode == code, done.stdout + done.stderr
    run = json.loads(done.stdout.splitlines()[-1])["run_id"]
    assert fairway.show(run)["state"] == "failed"
    return run


@pytest.mark.usefixtures("slurm")
class TestEnds:
    """Ends of a task and of its waiting, and the reasons shown."""

    # As with cgroups, Slurm then kills what a task leaves behind.
    @pytest.mark.parametrize("slurm", ["proctrack/pgid"], indirect=True)
    def test_slurm_node_that_saves_after_another_has_failed_has_the_grace_of_its_job(
        self, fairway: Fairway
    ) -> None:
        command = (
            'ready=$FAIRWAY_SHARED_DIR/ready; if [ "$FAIRWAY_NODE_RANK" = 0 ]; then'
            " until [ -e $ready ]; do sleep 0.05; done; exit 7; fi;"
            # Longer than Slurm's KillWait here.
            "trap 'trap : TERM; sleep 6; echo saved; exit 3' TERM; touch $ready;"
            "while :; do sleep 0.05; done"
        )
        run = failed(fairway, fairway.job(command, template="every-node", nodes=2), 7)
        assert "saved" in fairway.within("logs", run, "--grep", "^saved").stdout

    @pytest.mark.nightly
    def test_slurm_node_that_does_not_end_after_another_has_failed_is_killed_after_its_grace(
        self, fairway: Fairway, signs: Signs
    ) -> None:
        command = (
            'if [ "$FAIRWAY_NODE_RANK" = 0 ]; then exit 7; fi;'
            f"trap 'echo told >>{signs}' TERM; while :; do sleep 0.05; done"
        )
        failed(fairway, fairway.job(command, template="every-node", nodes=2), 7)
        assert signs.lines(1)[0] == "told"

    def test_slurm_run_over_the_time_limit_of_its_job_ends_with_exit_code_124(
        self, fairway: Fairway, slurm: SlurmCluster, signs: Signs
    ) -> None:
        job = fairway.job(f"echo up >>{signs}; sleep 600", template="plain", retries=3)
        run = fairway.submit(job, *TARGET)
        signs.lines(1)
        [job_id] = slurm.run("squeue", "-h", "--name", run, "-o", "%A").split()
        # The signal that sbatch's --signal sends shortly before the time limit.
        slurm.run("scancel", "--batch", "--signal=USR1", job_id)
        assert fairway.within("wait", run).returncode == 124
        [task] = fairway.show(run)["task_list"]
        assert (task["timed_out"], task["attempts"]) == (True, 1)

    def test_slurm_run_that_is_queued_reports_why_and_can_be_cancelled(
        self, fairway: Fairway, gate: Gate
    ) -> None:
        first = fairway.submit(
            fairway.job(f"read <{gate.path}", template="plain", nodes=3), *TARGET
        )
        second = fairway.submit(fairway.job("true", template="plain"), *TARGET)
        facts = fairway.show_waiting(second)
        assert (facts["state"], facts["reason"]) == ("queued", "waiting for nodes")
        third = fairway.submit(fairway.job("true", template="plain"), *TARGET)
        facts = fairway.show_waiting(third)
        assert (facts["state"], facts["reason"]) == ("queued", "1 other job comes first")
        assert fairway.within("cancel", third).returncode == 0
        assert fairway.within("cancel", second).returncode == 0
        assert fairway.show(second)["state"] == "cancelled"
        gate.open()
        assert fairway.within("wait", first).returncode == 0

    @pytest.mark.nightly
    def test_slurm_run_with_higher_priority_starts_first(
        self, fairway: Fairway, gate: Gate
    ) -> None:
        fairway.submit(fairway.job(f"read <{gate.path}", template="plain", nodes=3), *TARGET)
        shape = {"template": "plain", "nodes": 3}
        normal = fairway.submit(fairway.job("sleep 0.1", **shape), *TARGET)
        high = fairway.submit(fairway.job("sleep 0.1", priority="high", **shape), *TARGET)
        gate.open()
        for run in (normal, high):
            assert fairway.within("wait", run).returncode == 0
        assert fairway.show(high)["ended"] <= fairway.show(normal)["started"]


# Logs its arguments, and runs the command without a container.
_APPTAINER = """#!/bin/bash
printf '%s\\n' "apptainer $*" >>{log}
while [[ $1 != docker://* ]]; do shift; done
shift
exec env IN_CONTAINER=1 "$@"
"""


@pytest.mark.parametrize("package", ["mpich", "intelmpi"])
@pytest.mark.nightly
def test_slurm_hydra_starts_its_ranks_on_every_node(
    fairway: Fairway, slurm: SlurmCluster, repository: Path, package: str
) -> None:
    """The ranks do not communicate: these nodes share one network interface, which these packages'
    transports do not always accept as belonging to two machines."""
    prefix = repository / ".venv" / package
    if not prefix.is_dir():
        pytest.skip(f"{prefix} is not installed")
    job = fairway.job(
        "echo rank $PMI_RANK of $PMI_SIZE on $(hostname)",
        template=package,
        env={"PATH": f"{prefix}/bin:/usr/bin:/bin"},
        nodes=3,
        processes_per_node=2,
    )
    printed = fairway.watch(job, *TARGET)
    for rank in range(6):
        assert f"rank {rank} of 6 on {slurm.node_names()[rank // 2]}" in printed


def test_slurm_nodes_stage_inputs_and_read_secrets(
    fairway: Fairway, slurm_needed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running(services()) as there,
        SlurmCluster(nodes=3, variables={"FAIRWAY_METADATA_URL": there.url}) as slurm,
    ):
        monkeypatch.setenv("FAIRWAY_SSH_CONFIG", slurm.environment["FAIRWAY_SSH_CONFIG"])
        folders = slurm.shared, slurm.folder / "state"
        check_staging(fairway, there, slurm.target, slurm.node_names(), *folders)


@pytest.mark.parametrize("nodes", [1, 3])
def test_slurm_container_is_started_once_on_each_node(
    fairway: Fairway, slurm: SlurmCluster, nodes: int
) -> None:
    log = fairway.folder / "apptainer.log"
    executable(slurm.folder / "home" / "bin" / "apptainer", _APPTAINER.format(log=log))
    image = "contoso.azurecr.io/train:1"
    container = {"image": image, "options": ["--writable-tmpfs"]}
    command = "echo in=$IN_CONTAINER"
    job = fairway.job(command, template="every-node", nodes=nodes, container=container)
    assert fairway.watch(job, *TARGET).count("in=1") == nodes
    entries = re.findall(r"^apptainer exec .*", log.read_text(), re.MULTILINE)
    assert len(entries) == nodes
    for line in entries:
        assert f"--bind {slurm.shared}" in line
        assert f"--writable-tmpfs docker://{image} " in line


@pytest.fixture
def cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm_needed: None
) -> Iterator[SlurmCluster]:
    """A cluster with one permanent node, and two cloud nodes that do not exist yet."""
    with SlurmCluster(nodes=1, cloud=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        targets = [cluster.target_of("cloud")]
        (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": targets}))
        yield cluster


def states(cluster: SlurmCluster) -> set[str]:
    """Returns the states of the cloud nodes; `idle~` is a node that does not exist."""
    return set(cluster.run("sinfo", "-h", "-N", "-p", "cloud", "-o", "%T").split())


def test_slurm_cloud_nodes_are_started_for_a_run_and_deleted_after_it(
    fairway: Fairway, cloud: SlurmCluster
) -> None:
    assert states(cloud) == {"idle~"}
    job = fairway.job("hostname", template="every-node", nodes=2)
    run = fairway.submit(job, "--target", "slurm-sim-cloud")
    until(lambda: fairway.show(run)["reason"] == "its nodes are starting")
    assert fairway.within("wait", run).returncode == 0
    assert sorted(fairway.within("logs", run).stdout.split()) == ["cloud-0", "cloud-1"]
    scale_set = cloud.nodes_of_cloud.scale_set
    until(lambda: states(cloud) == {"idle~"} and not scale_set.instances, lambda: states(cloud))
    assert scale_set.capacity == 0
