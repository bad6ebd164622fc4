"""Common part of the engines whose runs are in a folder on a host reached over a connection."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from fairway_agent.quick import dataclass
from fairway_agent.records import InvalidRecord, JsonRecord
from fairway_agent.shared.reports import (
    CancelRequest,
    Done,
    Health,
    NodeReport,
    NodesReport,
    NodesRequest,
    RunsReport,
    RunsRequest,
    SubmitReport,
)
from fairway_agent.spec import RunOutputInput
from fairway_boot.files import NO_ANSWER
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.project_folder import find_project, from_home
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.engine import (
    Engine,
    Node,
    Progress,
    Secrets,
    inside_command,
    no_progress,
    unready,
)
from fairway_runner.engines.outage import RunRefused, StillUnavailable, clock, no_refusal, warn
from fairway_runner.engines.remote import submission_state
from fairway_runner.engines.remote.connection import COMMAND_TIMEOUT, is_here, of_shell
from fairway_runner.engines.remote.mirror import SHARED, Mirror
from fairway_runner.engines.remote.remote_host import RemoteHost, connection_to
from fairway_runner.engines.remote.submission_state import SubmissionRecord, end_cancelled
from fairway_runner.runs.records import GONE, SESSION, known_grace, known_state
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from fairway_core.target import KubernetesAccess, SlurmAccess, SshAccess, Target
    from fairway_runner.engines.engine import Runs
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder, RunFolders
    from fairway_runner.runs.output_files import RunOutput

R = TypeVar("R", bound="JsonRecord")
A = TypeVar("A", bound="SshAccess | SlurmAccess | KubernetesAccess")

_MOST_SKEW = 30.0  # seconds between two clocks; with more, times in logs mislead
_LEAST_FREE = 1 << 30  # bytes

# Launchers that start all their processes with one command per node.
_ONCE_A_NODE = ("torchrun", "deepspeed", "tensorflow", "every-node")


@dataclass
class RemoteEngine(Engine, Generic[A]):
    """Base of these engines; `engines.engine.Engine` documents the methods. NODE is the package of
    modules that answer on the host, which messages call by its ROLE."""

    NODE: ClassVar[str]
    NODES: ClassVar[str] = "nodes.nodes"
    """Function in NODE that reports the nodes."""
    ROLE: ClassVar[str]

    @property
    def access(self) -> A:
        """Way to reach the host or the cluster, from the target's section for its engine."""
        return cast("A", getattr(self.target, self.target.engine))

    @property
    def remote_host(self) -> RemoteHost:
        """The host that is reached, and the shared folder."""
        access = _access(self.target)
        self.require_address()
        others = [each for each in getattr(access, "others", ()) if each]
        if is_here(access.host):
            _require_outside(self.target, access.shared)
        connection = connection_to(access.host, access.user, self.target.ssh_route, others)
        return RemoteHost(connection, access.shared, self.deadline)

    @property
    def mirror(self) -> Mirror:
        """The runs there."""
        return Mirror(self.remote_host, states=f"{self.NODE}.runs.states")

    def require_address(self) -> None:
        """Raises UserError if the target does not say where it is."""
        if (finding := unready(self.target)) is not None:
            raise UserError([finding])

    def require_nodes(self, job: Job) -> None:
        """Raises UserError without an address, and for more nodes than there can be."""
        self.require_address()
        most = self.target.nodes.max
        if job.nodes > most:
            message = f"the job needs {job.nodes} nodes, and `{self.target.name}` has {most}"
            raise UserError.of("too-many-nodes", message, f"-s nodes={most}, or a larger cluster")

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """Raises UserError for more nodes than there can be, and for containers on several nodes
        with a launcher that starts its ranks by itself: only programs that start once a node are
        put into one. Programs are looked up when a task starts: a job may load them as modules."""
        is_spread = job.container is not None and job.nodes > 1
        if is_spread and job.template not in (*_ONCE_A_NODE, SESSION):
            message = f"`{job.template}` cannot start ranks in containers on several nodes here"
            hint = f"use one node, or one of the launchers {', '.join(_ONCE_A_NODE)}"
            raise UserError.of("no-containers", message, hint)
        self.require_nodes(job)

    def place_of(self, target: Target) -> tuple[str, ...]:
        """Returns a key that is equal for two targets whose runs are in the same shared folder."""
        access = _access(target)
        # Environments reuse addresses and folders, so these alone do not identify a cluster.
        return access.host, access.shared, target.environment

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Uploads the run to the shared folder and hands it over there. Raises UserError for a
        retry of a run that another machine has retried.

        A host that does not answer never gets anything of a run, and so the run stays unsent.
        """
        try:
            if (before := SubmissionRecord.read(run)) is None:
                self.remote_host.connection.require_answer(deadline=self.deadline)
            elif retry and not self.mirror.require_latest(run):
                self.request_end(run)  # it may continue nevertheless
            submission = submission_state.begin(run, retry=retry)
            if not submission.complete:
                with no_refusal(before):
                    self.mirror.publish(run, snapshot)
                jobs = self.hand_over(run, submission, snapshot.name)
                replace(submission, complete=True, jobs=jobs).write(run)
        finally:
            os.close(lock)

    def hand_over(self, run: RunFolder, submission: SubmissionRecord, code: str) -> tuple[str, ...]:
        """Has the cluster start a run on the code of that name; returns its scheduler's jobs."""
        raise NotImplementedError

    def refresh(self, runs: Runs, *, logs: bool = False, samples: bool = False) -> None:
        self.mirror.refresh(runs, logs=logs, samples=samples)

    def input_from(self, run_id: str, name: str, kept: RunOutput) -> RunOutputInput:
        """Returns its path in the shared folder, or a path there that is named by its content."""
        if self._shares_folder(kept.run):
            return RunOutputInput(name, kept.path)
        kept.bring()
        from fairway_agent.shared.runs import RUN_INPUTS

        return RunOutputInput(name, f"{RUN_INPUTS}/{kept.digest()}", kept.path)

    def waits_for(self, other: Target) -> bool:
        """Returns True if runs of the other target are visible here, in the same shared folder."""
        is_mine = other.engine == self.target.engine
        return is_mine and self.place_of(other) == self.place_of(self.target)

    def begin_connection(self) -> None:
        connection = self.remote_host.connection
        with suppress(UserError, OSError):
            connection.begin()

    def predecessor(self, run: RunFolder) -> str:
        """Returns its id. Raises UserError if it does not run in the same shared folder."""
        if self._shares_folder(run):
            return run.id
        message = f"`after`: {run.id} runs on `{run.record.target}`, not on this cluster"
        raise UserError.of("foreign-run", message, f"wait for it first: fairway wait {run.id}")

    def _shares_folder(self, run: RunFolder) -> bool:
        return run.record.engine == self.target.engine and self.waits_for(submitted_to(run))

    def collect(
        self, run: RunFolder, tasks: Sequence[int], arrived: Progress = no_progress
    ) -> None:
        names = [f"tasks/{run.task_name(index)}/outputs" for index in tasks]
        host = self.remote_host
        # rsync does not expand `~` with protected arguments, but starts in the home directory.
        there = f"{host.shared.removeprefix('~/')}/runs/{run.id}"
        host.connection.download(there, names, run.folder, deadline=self.deadline)

    def cancel(self, run: RunFolder) -> None:
        if known_state(run.folder).is_final:
            self.end_gone(run)
            return
        self.request_end(run)
        self.mirror.cancel_unknown(run)
        self.await_end(run)

    def marks(self, last: SubmissionRecord) -> tuple[str, ...]:
        """Returns the marks of a submission's jobs: see `CancelRequest`."""
        return last.jobs

    def end_gone(self, run: RunFolder) -> None:
        """Ends what may still be active of a run whose folder there is gone."""
        if known_state(run.folder).reason == GONE:
            self.request_end(run)
            end_cancelled(run)

    def cancel_task(self, run: RunFolder, task: int) -> None:
        self.request_end(run, task=run.task_name(task))

    def request_end(self, run: RunFolder, *, task: str = "", kill: bool = False) -> None:
        """Asks the host to end a run, or one task of it; with `kill` the scheduler ends it."""
        last = SubmissionRecord.read(run) or SubmissionRecord(0)
        marks, created = self.marks(last), run.record.created
        request = CancelRequest(run.id, last.submission, kill, task, marks, created)
        self.ask("runs.cancel", request, Done)

    def remove(self, run: RunFolder) -> None:
        self.end_gone(run)
        request = RunsRequest(remove=run.id, created=run.record.created)
        self.remote_host.call(f"{SHARED}.runs", request, RunsReport)

    def adopt(self, store: RunFolders) -> Sequence[Finding]:
        return self.mirror.adopt(store, self.target)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        names = (run.task_status(task).node or "").split(",")
        if node >= len(names) or not names[node]:
            raise self.no_node_yet(run, task)
        there = f"{self.access.shared}/runs/{run.id}"
        return self.shell(names[node], inside_command(there, run.task_name(task), command))

    def ask(
        self, called: str, request: JsonRecord, kind: type[R], *, timeout: float = COMMAND_TIMEOUT
    ) -> R:
        """Calls a function of this engine's modules on the host and returns its answer."""
        return self.remote_host.call(f"{self.NODE}.{called}", request, kind, timeout=timeout)

    def nodes_request(self, **asked: Any) -> NodesRequest:
        """Returns the request for the target's nodes."""
        raise NotImplementedError

    def look(self, **asked: Any) -> NodesReport:
        """Returns the host's report on the nodes; `NodesRequest` has what may be `asked`."""
        return self.ask(self.NODES, self.nodes_request(**asked), NodesReport)

    def find_node(self, name: str) -> NodeReport:
        """Returns the node of that name or address. Raises UserError if the target has none."""
        nodes = self.look().nodes
        for node in nodes:
            if name in (node.name, node.address):
                return node
        message = f"`{self.target.name}` has no node `{name}`"
        hint = did_you_mean(name, [node.name for node in nodes])
        hint = hint or f"its nodes: fairway nodes list {self.target.name}"
        raise UserError.of("unknown-node", message, hint)

    def doctor(self) -> list[Finding]:
        """Checks the host, the shared folder, and the subjects of the engine's own `faults`."""
        try:
            began = time.time()
            found = self.look(**self.health_request())
            if found.health is None:
                raise self.remote_host.unexpected_answer(InvalidRecord("`health` is missing"))
        except UserError as error:
            return list(error.findings)
        findings = [*self.findings_of(found, began, time.time())]
        connection = self.remote_host.connection
        return findings + (of_shell(connection, self.deadline) if connection.has_rsync else [])

    def health_request(self) -> dict[str, Any]:
        """Returns `doctor`'s questions to the host, as arguments of `look`."""
        return {"health": True}

    def findings_of(self, found: NodesReport, began: float, ended: float) -> Iterator[Finding]:
        """Yields faults in a report that came between two moments of this machine's clock."""
        health, shared = found.health, self.access.shared
        assert health is not None, "it was asked for"
        host = getattr(self.access, "host", f"the {self.ROLE}")
        if health.fault:
            message = f"the shared folder {shared} cannot be used: {health.fault}"
            hint = f"check its mount on {host}: findmnt -T {shared}"
            yield Finding("unwritable-folder", message, hint)
        if health.free < _LEAST_FREE:
            message = f"the shared folder {shared} has {health.free >> 20} MiB left"
            yield Finding("full-disk", message, "remove old runs: fairway clean")
        off = max(began - health.time, health.time - ended, 0.0)
        if off > _MOST_SKEW:
            message = f"the {self.ROLE}'s clock differs by {off:.0f} s from this machine's"
            hint = "compare both with: timedatectl"
            yield Finding("skewed-clock", message, hint, severity=Severity.WARNING)
        yield from self.faults(found.nodes, health)

    def faults(self, nodes: Sequence[NodeReport], health: Health) -> Iterator[Finding]:
        """Yields the faults of the target that only this engine knows of."""
        raise NotImplementedError


def _access(target: Target) -> SshAccess | SlurmAccess:
    access = target.access
    assert access is not None, "a target with such an engine has its section"
    return access


def _require_outside(target: Target, shared: str) -> None:
    """Raises UserError for a shared folder of this machine that is in the project, or in its
    repository: programs there may have come with it. A home is one of these only for who has
    nothing else there."""
    project, folder, home = (
        Path(os.path.realpath(each))
        for each in (find_project()[0], from_home(shared), from_home("~"))
    )
    repositories = (each for each in (project, *project.parents) if (each / ".git").exists())
    for each in {project, *repositories} - {home}:
        if folder.is_relative_to(each):
            message = f"`shared` of `{target.name}` is in the project: {folder}"
            hint = f"programs run there: name a folder outside of {each}"
            raise UserError.of("shared-in-project", message, hint)


# Seconds beyond a job's grace after which the scheduler ends a cancelled job.
_CANCEL_SLACK = 20.0


@dataclass
class ScheduledEngine(RemoteEngine[A]):
    """Base of engines with a scheduler; `engines.engine.Engine` documents the methods. REFUSALS are
    the faults after which nothing of a run was started; DOWN is a hint for a scheduler that does
    not answer; COLUMNS are additional columns of lists of nodes."""

    pause: ClassVar[float] = 0.5
    REFUSALS: ClassVar[frozenset[str]]
    DOWN: ClassVar[str]
    COLUMNS: ClassVar[tuple[str, str]]
    answered: float = field(default_factory=time.monotonic)
    """Time of the scheduler's last answer about runs, on the monotonic clock; initially the time at
    which it was first needed."""
    warned: bool = False
    """True once the user was warned that the scheduler does not answer."""

    def request(self, run: RunFolder, submission: SubmissionRecord, code: str) -> JsonRecord:
        """Returns the request to the scheduler; `code` names the snapshot."""
        raise NotImplementedError

    def hand_over(self, run: RunFolder, submission: SubmissionRecord, code: str) -> tuple[str, ...]:
        """Submits it to the scheduler. Raises UserError if that refuses it: RunRefused for a run
        that never began, of which nothing is left there."""
        request = self.request(run, submission, code)
        try:
            return self.ask("submit.submit", request, SubmitReport).jobs
        except UserError as error:
            if error.findings[0].id in self.REFUSALS and not submission.submission:
                raise RunRefused(error.findings, exit_code=error.exit_code) from None
            raise

    def refresh(self, runs: Runs, *, logs: bool = False, samples: bool = False) -> None:
        """Refreshes all of them with one command on the host, and one question to the scheduler. If
        that does not answer, the states that tasks have written still arrive, and a warning is
        given once; a command that follows a run tolerates it until the deadline."""
        silent = self.mirror.refresh(runs, logs=logs, samples=samples)
        now = time.monotonic()
        if not silent:
            self.answered, self.warned = now, False
        elif now - self.answered > self.deadline:
            raise StillUnavailable.of(NO_ANSWER, silent, self.DOWN, exit_code=5)
        elif not self.warned:
            self.warned = True
            text = "%s: %s; states are as they were last known at %s"
            warn(text, self.target.name, silent, clock(min(run.last_known for run in runs)))

    def cancel(self, run: RunFolder) -> None:
        """Tells the scheduler; running tasks get the job's signal and its grace."""
        self.refresh([run])
        if known_state(run.folder).is_final:
            self.end_gone(run)
            return
        self.request_end(run)
        self.mirror.cancel_unknown(run)
        deadline = time.monotonic() + known_grace(run.folder) + _CANCEL_SLACK
        while not known_state(run.folder).is_final:
            self.refresh([run])
            left = deadline - time.monotonic()
            if left <= 0:
                self.request_end(run, kill=True)
                break
            time.sleep(min(self.pause, left))
        self.await_end(run, 0.0)  # its grace is over

    def nodes(self) -> list[Node]:
        from fairway_core.machine import Machine

        return [
            Node(
                *(node.name, node.state, node.address, node.run, node.reason),
                facts={name: getattr(node, name) for name in self.COLUMNS},
                machine=Machine.parse(node.machine),
            )
            for node in self.look().nodes
        ]

    def order(self, action: str, node: str) -> None:
        self.look(action=action, node=self.find_node(node).name)
