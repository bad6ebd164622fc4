"""Programs on the nodes of a real Slurm: the contract, MPI's launchers, containers."""

from pathlib import Path

import pytest
from program import Fairway
from programs import executable
from staged import check_staging, services

from fairway_simulator.slurm import SlurmCluster
from fairway_simulator.ssh.services import running

TARGET = ("--target", "slurm-sim")

_REPORT = "env -0 | grep -z ^FAIRWAY_ >$FAIRWAY_SHARED_DIR/$FAIRWAY_NODE_RANK; hostname; pwd"
_DIRECTORIES = ("SHARED_DIR", "CHECKPOINT_DIR", "SCRATCH_DIR", "OUTPUT_MODEL")

# Says how it was called, and runs the command where it is.
_APPTAINER = """#!/bin/bash
printf '%s\\n' "apptainer $*" >>{log}
while [[ $1 != docker://* ]]; do shift; done
shift
exec env IN_CONTAINER=1 "$@"
"""


def test_the_contract_on_every_node(fairway: Fairway, slurm: SlurmCluster) -> None:
    tests = " && ".join(f'test -w "$FAIRWAY_{name}"' for name in _DIRECTORIES)
    job = fairway.job(
        f"{tests} && {_REPORT}",
        template="every-node",
        nodes=3,
        processes_per_node=2,
        outputs={"model": {}},
        checkpoint={"directory": "kept/here"},
    )
    run = fairway.submit(job, *TARGET)
    assert fairway.within("wait", run).returncode == 0, fairway("logs", run).stdout
    folder = slurm.shared / "runs" / run
    for rank in range(3):
        words = (folder / "shared" / str(rank)).read_text().split("\0")
        found = dict(word.split("=", 1) for word in words if word)
        assert found["FAIRWAY_NODE_RANK"] == str(rank)
        assert found["FAIRWAY_HOSTS"].split(",") == slurm.node_names()
        assert Path(found["FAIRWAY_HOSTFILE"]).read_text().split() == slurm.node_names()
        assert found["FAIRWAY_MAIN_HOST"] == slurm.node_names()[0]
        counts = ("NODES", "PROCESSES_PER_NODE", "WORLD_SIZE", "TASK", "ATTEMPT")
        assert [found[f"FAIRWAY_{name}"] for name in counts] == ["3", "2", "6", "0", "0"]
        assert found["FAIRWAY_CHECKPOINT_DIR"] == str(
            slurm.shared / "checkpoints" / "kept" / "here"
        )
        assert 1024 < int(found["FAIRWAY_MAIN_PORT"]) < 65536
    lines = fairway.within("logs", run).stdout.split()
    assert sorted(set(lines)) == sorted([*slurm.node_names(), str(folder / "code")])
    # What is on a node's own disk goes with the task.
    left = [slurm.folder / f"temporary.{node}" for node in slurm.node_names()]
    assert not [path for node in left for path in node.glob("fairway-*/tasks/*")]


@pytest.mark.parametrize("package", ["mpich", "intelmpi"])
@pytest.mark.nightly
def test_hydra_starts_its_ranks_everywhere(
    fairway: Fairway, slurm: SlurmCluster, repository: Path, package: str
) -> None:
    """The ranks only say who they are: these nodes share one network interface, which the
    transports of these packages do not take for two machines' every time."""
    binary = installed(repository, package) / "bin"
    job = fairway.job(
        "echo rank $PMI_RANK of $PMI_SIZE on $(hostname)",
        template=package,
        env={"PATH": f"{binary}:/usr/bin:/bin"},
        nodes=3,
        processes_per_node=2,
    )
    printed = fairway.watch(job, *TARGET)
    for rank in range(6):
        assert f"rank {rank} of 6 on {slurm.node_names()[rank // 2]}" in printed


def test_inputs_are_staged_and_secrets_read_on_the_nodes(
    fairway: Fairway, slurm_needed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        running(services()) as there,
        SlurmCluster(nodes=3, variables={"FAIRWAY_METADATA_URL": there.url}) as slurm,
    ):
        monkeypatch.setenv("FAIRWAY_SSH_CONFIG", slurm.environment["FAIRWAY_SSH_CONFIG"])
        folders = slurm.shared, slurm.folder / "state"
        check_staging(fairway, there, slurm.target, slurm.node_names(), *folders)


def installed(repository: Path, package: str) -> Path:
    """The folder of an MPI that is installed beside this environment."""
    prefix = repository / ".venv" / package
    if not prefix.is_dir():
        pytest.skip(f"{prefix} is not installed")
    return prefix


@pytest.mark.usefixtures("slurm")
class TestContainers:
    """A container needs something on the node that runs it."""

    @pytest.fixture
    def apptainer(self, fairway: Fairway, slurm: SlurmCluster) -> Path:
        """A stand-in of the program that notes its command line; its log."""
        log = fairway.folder / "apptainer.log"
        programs = slurm.folder / "home" / "bin"
        programs.mkdir()
        executable(programs / "apptainer", _APPTAINER.format(log=log))
        return log

    def test_slurm_container_on_one_node_runs_the_whole_job(
        self, fairway: Fairway, slurm: SlurmCluster, apptainer: Path
    ) -> None:
        container = {"image": "contoso.azurecr.io/train:1", "options": ["--writable-tmpfs"]}
        job = fairway.job("echo in=$IN_CONTAINER", template="every-node", container=container)
        assert "in=1" in fairway.watch(job, *TARGET)
        [line] = apptainer.read_text().splitlines()
        assert line.startswith("apptainer exec ")
        assert f"--bind {slurm.shared}" in line
        assert "--writable-tmpfs docker://contoso.azurecr.io/train:1 bash" in line

    def test_on_several_nodes_each_command_is_in_it(
        self, fairway: Fairway, apptainer: Path
    ) -> None:
        container = {"image": "ubuntu:24.04"}
        job = fairway.job(
            "echo in=$IN_CONTAINER", template="every-node", nodes=3, container=container
        )
        assert fairway.watch(job, *TARGET).count("in=1") == 3
        assert apptainer.read_text().count("apptainer exec ") == 3
