"""How MPI's launchers are told to reach the other nodes of a task, where they do not know it by
themselves: by a program that they call in place of ssh. Standard library only."""

from __future__ import annotations


def open_mpi(agent: str) -> dict[str, str]:
    """Open MPI 4, and 5."""
    return {"OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent}


def hydra(agent: str, like: str = "ssh") -> dict[str, str]:
    """What is built on Hydra: MPICH and MVAPICH, and Intel MPI. `like` says whose words the
    program takes: those of ssh or rsh."""
    return {
        "HYDRA_LAUNCHER": like,
        "HYDRA_LAUNCHER_EXEC": agent,
        "I_MPI_HYDRA_BOOTSTRAP": like,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
    }
