"""This machine as a place to run jobs: its programs, its GPUs, what its MPI must be told."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def search_path() -> str:
    """PATH with the programs of Fairway's own environment: before the machine's, so that
    `python` is the one that Fairway was installed with, but behind an environment that the
    user activated."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    activated = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return f"{path}:{own}" if activated else f"{own}:{path}"


# What a run, an MPI program or a batch system around this process was told about itself.
_OUTER = ("FAIRWAY_", "OMPI_COMM_WORLD_", "PMIX_", "PRTE_", "PMI_", "SLURM_")


def inherited_environment() -> dict[str, str]:
    """This process's environment, without what would make a job here take itself for another."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTER)}
    return {**kept, "PATH": search_path()}


def run_environment() -> dict[str, str]:
    """What every task on this machine is told; what the user set wins."""
    defaults = {
        # Shared memory alone: probing for fabrics takes Open MPI's wheel a second at start.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
        # Open MPI cannot start without one, and a service or a container may have none.
        "HOME": _home(),
    }
    if os.geteuid() == 0:
        # Open MPI refuses root by default; in a container there is often no other user.
        defaults |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {
        "PATH": search_path(),
        "FAIRWAY_MPI_ARGS": "--bind-to none",
        **{name: value for name, value in defaults.items() if name not in os.environ},
    }


def task_environment(ranks: int) -> dict[str, str]:
    """What a task of that many ranks is told beyond that."""
    if ranks == 1 or "OMPI_MCA_mpi_yield_when_idle" in os.environ:
        return {}
    # Ranks that share cores must let others run while they wait: 100 times faster. Few ranks
    # share them too, with whatever else runs here: 13 times with two ranks on two busy cores.
    return {"OMPI_MCA_mpi_yield_when_idle": "1"}


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a user without an entry in the machine's list of users
        return tempfile.gettempdir()
