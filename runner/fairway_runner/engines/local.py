"""The engine `local`: this machine's own MPI, watched over by a detached supervisor."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.quick import dataclass
from fairway_boot.files import AgentError, copy_file
from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import Engine, Node, Secrets, inside_command
from fairway_runner.engines.outage import gone_input

if TYPE_CHECKING:
    from fairway_agent.spec import RunOutputInput
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.output_files import RunOutput


def search_path() -> str:
    """Returns PATH with Fairway's own programs: after an activated environment's, else first."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    activated = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return f"{path}:{own}" if activated else f"{own}:{path}"


_SUPERVISOR = "fairway_agent.supervisor"
_CANCEL_GRACE = 10.0  # seconds between SIGTERM and SIGKILL
_MOST_RANKS = 1024
_HERE = "it is the machine that you are on"


@dataclass
class LocalEngine(Engine):
    """This machine; `engines.engine.Engine` documents the methods."""

    pause: ClassVar[float] = 0.05
    HINTS: ClassVar[Mapping[str, str]] = dict.fromkeys(("act_on_node", "resize", "shell"), _HERE)

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """Raises UserError, with exit code 4 if this machine lacks a program of the launcher."""
        if job.world_size > _MOST_RANKS:
            message = f"{job.world_size:,} ranks are too many for one machine"
            hint = f"`local` runs at most {_MOST_RANKS:,} ranks: nodes × processes_per_node"
            raise UserError.of("too-many-ranks", message, hint)
        if job.container is not None:
            from fairway_agent import container

            if container.find_runtime() is None:
                raise UserError.of("no-containers", *container.missing("this machine"), exit_code=4)
            return  # everything else is in the image
        path = search_path()
        for tool in needs:
            if shutil.which(tool, path=path) is None:
                from fairway_agent.task_logs import install_hint

                where = f"into an environment that is activated, or Fairway's: {sys.prefix}"
                hint = f"{install_hint(tool)}, {where}\nor give the job a `container:` that has it"
                message = f"`{tool}` is not on this machine's PATH"
                raise UserError.of("missing-tool", message, hint, exit_code=4)

    def environment(self) -> dict[str, str]:
        """Returns the variables of every task on this machine; the user's own settings win."""
        try:
            home = str(Path.home())
        except RuntimeError:  # a user without a passwd entry
            home = tempfile.gettempdir()
        defaults = {
            # Only shared memory: probing for fabrics takes Open MPI's wheel a second at start.
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "self,sm",
            # Open MPI needs it, and a service or a container may have none.
            "HOME": home,
        }
        if os.geteuid() == 0:
            # Open MPI refuses root by default; a container often has no other user.
            defaults |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {
            "PATH": search_path(),
            "FAIRWAY_MPI_ARGS": "--bind-to none",
            **{name: value for name, value in defaults.items() if name not in os.environ},
        }

    def task_environment(self, ranks: int) -> dict[str, str]:
        if ranks == 1 or "OMPI_MCA_mpi_yield_when_idle" in os.environ:
            return {}
        # Ranks that share cores must yield while they wait: 100 times faster. Few ranks share them
        # with other programs here: 13 times faster with two ranks on two busy cores.
        return {"OMPI_MCA_mpi_yield_when_idle": "1"}

    def predecessor(self, run: RunFolder) -> str:
        """Returns its folder. Raises UserError if it runs elsewhere."""
        if not runs_here(run.record.engine):
            message = f"`after`: {run.id} runs on `{run.record.target}`, not on this machine"
            raise UserError.of("foreign-run", message, f"wait for it first: fairway wait {run.id}")
        return str(run.folder)

    def waits_for(self, other: Target) -> bool:
        return runs_here(other.engine)

    def input_from(self, run_id: str, name: str, kept: RunOutput) -> RunOutputInput:
        """Returns its folder here, into which other engines download their tasks' outputs."""
        kept.bring()
        from fairway_agent.spec import RunOutputInput

        return RunOutputInput(name, kept.path)

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Starts the run's supervisor, detached, hands it the lock and pipes the secrets to it.
        Raises UserError if nothing can be written, and leaves nothing behind."""
        from fairway_runner.runs.records import read_plan

        plan = read_plan(run.folder)
        for each in plan.run_inputs:
            if not plan.awaits(each) and not (run.folder.parents[1] / each.path).is_dir():
                os.close(lock)
                raise gone_input(each.name, each.path)
        if retry and run.state_at_end == "lost":
            _end_all(run)
        # A run that was killed before it started has no copy of the code, or a partial one.
        if not (run.folder / "code").exists():
            draft = run.folder / "code.part"
            shutil.rmtree(draft, ignore_errors=True)
            try:  # a copy of its own, in which the setup may build and tasks may write
                shutil.copytree(snapshot, draft, copy_function=copy_file)
                draft.rename(run.folder / "code")
            except OSError as error:
                if not retry:
                    shutil.rmtree(run.folder, ignore_errors=True)
                os.close(lock)
                why = error.strerror or "it changed meanwhile"
                message = f"the code cannot be copied to {run.folder}: {why}"
                raise UserError.of(
                    "unwritable-folder", message, f"is the disk full? df -h {run.folder.parent}"
                ) from None
        _supervise(run, lock, secrets, retry=retry)

    def cancel(self, run: RunFolder) -> None:
        from fairway_agent import control

        status = run.status
        if status.state == "lost":
            _end_all(run)
        elif (
            not status.is_final and control.end_supervisor(run.folder, status.submission).is_active
        ):
            self.await_end(run)

    def has_ended(self, run: RunFolder) -> bool:
        from fairway_agent import control

        return not control.is_supervised(run.folder)

    def cancel_task(self, run: RunFolder, task: int) -> None:
        from fairway_agent import control

        control.cancel(run.folder, control.read(run.folder).submission, run.task_name(task))
        control.signal_supervisor(run.folder, signal.SIGHUP)

    def remove(self, run: RunFolder) -> None:
        """Ends the leftovers of a killed supervisor of a lost run: nobody would find them later."""
        try:
            is_lost = run.state_at_end == "lost"
        except UserError:  # it is damaged
            is_lost = True
        if is_lost:
            _end_all(run)

    def nodes(self) -> list[Node]:
        return [Node("localhost", "idle", "127.0.0.1")]

    def main_host(self, run: RunFolder) -> str:
        return "localhost"

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        words = inside_command(str(run.folder), run.task_name(task), command, sys.executable)
        # In its own session: remnants of a run are ended by their sessions.
        if os.isatty(0) and os.isatty(1):
            import pty

            return os.waitstatus_to_exitcode(pty.spawn(words))
        with subprocess.Popen(words, start_new_session=True) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                os.killpg(process.pid, signal.SIGINT)
                code = process.wait()
        return 128 - code if code < 0 else code


ENGINE = LocalEngine


def _end_all(run: RunFolder) -> None:
    from fairway_agent import processes
    from fairway_agent.task.task import Nodes

    processes.end(processes.sessions_of(run.folder, Nodes.MARK), _CANCEL_GRACE)


# Variables of a run, an MPI program or a scheduler around this process, with which a job here would
# take itself for another.
_OUTER = ("FAIRWAY_", "OMPI_COMM_WORLD_", "PMIX_", "PRTE_", "PMI_", "SLURM_")


def _supervise(run: RunFolder, lock: int, secrets: Secrets, *, retry: bool) -> None:
    from fairway_agent import control

    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OUTER)}
    inherited["PATH"] = search_path()
    # Also the variables that secrets were read from: hidden from /proc/PID/environ, and without
    # effect on the supervisor if Python or the loader reads them (LD_PRELOAD).
    values = set(secrets.values())
    kept = {name: value for name, value in inherited.items() if value not in values}
    apart = {name: value for name, value in inherited.items() if value in values}
    said = json.dumps({**apart, **secrets}).encode()
    try:
        control.start_supervisor(_SUPERVISOR, run.folder, lock, kept, retry=retry, said=said)
    except AgentError as fault:
        hint = str(fault.record["hint"])
        raise UserError.of("not-started", str(fault), hint, exit_code=5) from None
    finally:
        os.close(lock)
