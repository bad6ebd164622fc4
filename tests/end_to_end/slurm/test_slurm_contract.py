"""Programs on the nodes of a real Slurm: MPI launchers, staged inputs, containers."""

import re
from pathlib import Path

import pytest
from program import Fairway
from programs import executable
from staged import check_staging, services

from fairway_simulator.slurm import SlurmCluster
from fairway_simulator.ssh.services import running

TARGET = ("--target", "slurm-sim")

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


def installed(repository: Path, package: str) -> Path:
    """Returns the folder of an MPI package that is installed beside this environment."""
    prefix = repository / ".venv" / package
    if not prefix.is_dir():
        pytest.skip(f"{prefix} is not installed")
    return prefix


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
