"""What the engines share whose runs lie in a folder on a host that is reached."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar

from fairway_agent.plan import Chained
from fairway_agent.shared.inputs import FOLDER
from fairway_agent.shared.reports import CancelRequest, Done
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.dev import TEMPLATE
from fairway_runner.engines import beside
from fairway_runner.engines.deadline import USUAL
from fairway_runner.engines.engine import no_progress, unready
from fairway_runner.engines.remote import submission_state
from fairway_runner.engines.remote.connection import COMMAND_TIMEOUT
from fairway_runner.engines.remote.figures import bring_figures
from fairway_runner.engines.remote.mirror import Mirror
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_agent.json_record import JsonRecord
    from fairway_core.findings import Finding
    from fairway_core.target import SlurmAccess, SshAccess, Target
    from fairway_runner.engines.engine import Progress
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder, RunFolders
    from fairway_runner.runs.kept import KeptOutput

R = TypeVar("R", bound="JsonRecord")

# Launchers that start all their processes from one command on each node.
_ONCE_A_NODE = ("torchrun", "deepspeed", "tensorflow", "every-node")


@dataclass
class RemoteEngine:
    """See `engines.engine.Engine` for what each method does. NODE is the package of modules that
    answer on the host."""

    target: Target
    deadline: float = USUAL
    NODE: ClassVar[str]

    @property
    def remote_host(self) -> RemoteHost:
        """The host that is reached, and the shared folder."""
        access = _access(self.target)
        self.require_address()
        return RemoteHost.of(
            host=access.host,
            user=access.user,
            shared=access.shared,
            others=[each for each in getattr(access, "others", ()) if each],
            reach=self.target.reach,
            deadline=self.deadline,
        )

    @property
    def mirror(self) -> Mirror:
        """The runs there."""
        return Mirror(self.remote_host, states=f"{self.NODE}.reconcile")

    def require_address(self) -> None:
        """UserError where the target does not say where it is."""
        if (finding := unready(self.target)) is not None:
            raise UserError([finding])

    def require_nodes(self, job: Job) -> None:
        """UserError for a target without an address, and for more nodes than there can be."""
        self.require_address()
        most = self.target.nodes.max
        if job.nodes > most:
            message = f"the job needs {job.nodes} nodes, and `{self.target.name}` has {most}"
            raise UserError.of("too-many-nodes", message, f"-s nodes={most}, or a larger cluster")

    def require_launcher(self, job: Job) -> None:
        """UserError for containers on several nodes with a launcher that starts its ranks there
        by itself: only what starts once a node is put into a container."""
        if (
            job.container is not None
            and job.nodes > 1
            and job.template not in (*_ONCE_A_NODE, TEMPLATE)
        ):
            message = f"`{job.template}` cannot start ranks in containers on several nodes here"
            hint = f"use one node, or one of the launchers {', '.join(_ONCE_A_NODE)}"
            raise UserError.of("no-containers", message, hint)

    def place_of(self, target: Target) -> tuple[str, ...]:
        """What two targets have in common whose runs lie in the same shared folder."""
        access = _access(target)
        # Environments have the same addresses and folders: they alone do not tell clusters apart.
        return access.host, access.shared, target.environment

    def environment(self) -> dict[str, str]:
        """Does nothing: the node side knows what its launchers need."""
        return {}

    def task_environment(self, ranks: int) -> dict[str, str]:
        """Nothing beyond that."""
        return {}

    def begin(self, run: RunFolder, *, retry: bool) -> submission_state.Submission:
        """See `submission_state.begin`; UserError for a retry of what was retried elsewhere.

        A host that does not answer is never sent anything of a run, and so the run stays unsent.
        """
        if submission_state.read(run) is None:
            self.remote_host.connection.run(["true"], deadline=self.deadline)
        elif retry:
            self.mirror.require_latest(run)
        return submission_state.begin(run, retry=retry)

    def input_from(self, name: str, kept: KeptOutput) -> Chained:
        """Its folder on the shared one, or one there that is named by what is in it."""
        if self._shares_folder(kept.run):
            return Chained(name, kept.path)
        kept.bring()
        return Chained(name, f"{FOLDER}/{kept.digest()}", kept.path)

    def waits_for(self, other: Target) -> bool:
        """Those of the same shared folder are seen from there."""
        is_mine = other.engine == self.target.engine
        return is_mine and self.place_of(other) == self.place_of(self.target)

    def begin_connection(self) -> None:
        """That to the host."""
        with suppress(UserError, OSError):
            self.remote_host.connection.begin()

    def predecessor(self, run: RunFolder) -> str:
        """Its id; UserError where it does not run in the same shared folder."""
        if self._shares_folder(run):
            return run.id
        message = f"`after`: {run.id} runs on `{run.record.target}`, not on this cluster"
        hint = f"wait for it first: fairway wait {run.id}"
        raise UserError.of("foreign-run", message, hint)

    def _shares_folder(self, run: RunFolder) -> bool:
        """Whether a run lies in the same shared folder."""
        return run.record.engine == self.target.engine and self.waits_for(submitted_to(run))

    def collect(
        self, run: RunFolder, tasks: Sequence[int], arrived: Progress = no_progress
    ) -> None:
        """Copies the outputs from the shared folder."""
        self.mirror.collect(run, tasks)

    def bring_figures(self, run: RunFolder) -> None:
        """Copies what the nodes have written into the shared folder."""
        bring_figures(run, self.remote_host)

    def cancel_task(self, run: RunFolder, task: int) -> None:
        """The host notes it, and tells the process that has the task."""
        last = submission_state.read(run)
        number = 0 if last is None else last.submission
        self.ask("cancel", CancelRequest(run.id, number, task=run.task_name(task)), Done)

    def remove(self, run: RunFolder) -> None:
        """Removes its folder from the shared one."""
        self.mirror.remove(run)

    def adopt(self, store: RunFolders) -> Sequence[Finding]:
        """Makes a folder for each run of the shared folder that is of this target."""
        return self.mirror.adopt(store, self.target)

    def main_host(self, run: RunFolder) -> str:
        """The first node of the first task that has one; UserError before it has started."""
        for index in range(run.record.tasks):
            name = run.task_status(index).node
            if name:
                return name.partition(",")[0]
        hint = f"wait until it runs: fairway show {run.id}"
        raise UserError.of("not-started", f"{run.id} has no node yet", hint)

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """See `Engine.shell`; each engine has a way of its own to its nodes."""
        raise NotImplementedError

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        """See `Engine.enter`."""
        names = (run.task_status(task).node or "").split(",")
        if node >= len(names) or not names[node]:
            hint = f"wait until it runs: fairway show {run.id}"
            message = f"task {run.task_name(task)} of {run.id} has no node yet"
            raise UserError.of("not-started", message, hint)
        return self.shell(names[node], beside.words(run.id, run.task_name(task), command))

    def ask(
        self, module: str, request: JsonRecord, kind: type[R], *, timeout: float = COMMAND_TIMEOUT
    ) -> R:
        """What one of this engine's modules says on the host."""
        return self.remote_host.call(f"{self.NODE}.{module}", request, kind, timeout=timeout)

    def unknown_node(self, name: str, known: Iterable[str]) -> NoReturn:
        """UserError for a node that the target does not have."""
        message = f"`{self.target.name}` has no node `{name}`"
        hint = did_you_mean(name, known) or f"its nodes: fairway nodes list {self.target.name}"
        raise UserError.of("unknown-node", message, hint)


def _access(target: Target) -> SshAccess | SlurmAccess:
    access = target.access
    assert access is not None, "a target with such an engine has its section"
    return access
