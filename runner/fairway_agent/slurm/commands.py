"""Slurm's own commands. Standard library only; a scheduler boots with it."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from fairway_agent.faults import NO_ANSWER, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

# Seconds: the commands themselves wait for long where slurmctld is down.
TIMEOUT = 60.0

_NO_SLURM = "load Slurm's client programs there: apt-get install slurm-client"
DOWN = (
    "is slurmctld up? on the scheduler: scontrol ping, then journalctl -u slurmctld\n"
    "jobs that run go on meanwhile"
)


class Refused(Exception):
    """A command did not do what it was told; the message is its own."""


def run(words: Sequence[str], *, stdin: str = "", timeout: float = TIMEOUT) -> str:
    """What a command prints; Refused where it fails, Fault where Slurm is not there."""
    try:
        done = subprocess.run(
            words,
            input=stdin,
            env=environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        message = f"`{words[0]}` is not on the login host's PATH"
        raise Fault("missing-tool", message, _NO_SLURM, 4) from None
    except subprocess.TimeoutExpired:
        raise Fault(NO_ANSWER, "slurmctld does not answer", DOWN) from None
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        if re.search("Unable to contact slurm controller|Connection refused|Socket timed", said):
            raise Fault(NO_ANSWER, "slurmctld does not answer", DOWN)
        raise Refused(said or f"exit code {done.returncode}")
    return done.stdout


# What a job inherits of the shell in which it is submitted: all else is the job file's matter.
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|LD_LIBRARY_PATH|MODULE.*|LOADEDMODULES|"
    r"VIRTUAL_ENV|CONDA_.*|(OMPI|PRTE|PMIX)_MCA_.*|OMPI_ALLOW_RUN_AS_ROOT(_CONFIRM)?|I_MPI_.*|"
    r"UCX_.*|NCCL_.*|MPICH_.*|SLURM_CONF|SBATCH_(ACCOUNT|QOS)|FAIRWAY_METADATA_URL"
)


def environment() -> dict[str, str]:
    """The variables that Slurm's commands run with, and so the jobs that they submit."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept}
