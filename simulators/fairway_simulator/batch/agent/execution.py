"""One attempt of a task in its own thread, from node preparation to the upload of outputs."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fairway_simulator.batch.agent import environment, layout
from fairway_simulator.batch.agent.commands import (
    ContainerError,
    NodeLost,
    not_transferred,
    require_fit,
)
from fairway_simulator.batch.agent.preparation import prepare
from fairway_simulator.batch.agent.transfers import TransferError, fetch, keep
from fairway_simulator.batch.model.job import Outcome, ended, failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_simulator.batch.agent.commands import NodeAgent, TaskFolder
    from fairway_simulator.batch.agent.supervisor_client import Supervisor
    from fairway_simulator.batch.model.job import Task
    from fairway_simulator.batch.model.pool import Node


class Listener(Protocol):
    """The receiver of an attempt's events; see `Lifecycle`."""

    def running(self, execution: Execution, /) -> bool: ...
    def subtask(self, execution: Execution, index: int, outcome: Outcome, /) -> None: ...
    def will_retry(self, task: Task, outcome: Outcome, /) -> bool: ...
    def ended(self, execution: Execution, outcome: Outcome | None, /) -> None: ...


class Execution:
    """An attempt of a task on its nodes, the main one first."""

    def __init__(
        self, task: Task, nodes: Sequence[Node], agent: NodeAgent, listener: Listener
    ) -> None:
        self.task = task
        self.nodes = list(nodes)
        self.deadline: float | None = None
        """The POSIX time at which the task exceeds its maximum wall-clock time."""
        self.done = threading.Event()
        self._agent = agent
        self._listener = listener
        self._generations = [node.generation for node in nodes]
        self._ended_with: Outcome | None = None
        self._lost = False
        self._supervisors: list[Supervisor | None] = [None] * len(nodes)
        self._lock = threading.Lock()
        folder = f"{task.job.folder}/{task.id}"
        self._common = [agent.task_folder(node, folder) for node in nodes]
        self.task_folders = self._common
        if task.is_multi_instance:
            self.task_folders = [
                agent.task_folder(node, f"{folder}/{uuid.uuid4()}") for node in nodes
            ]

    def start(self) -> None:
        name = f"task-{self.task.job.id}-{self.task.id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def end(self, outcome: Outcome) -> None:
        """Ends the attempt early, with this outcome."""
        self._stop(outcome)

    def abandon(self) -> None:
        """Ends the attempt early and drops its outcome."""
        self._lost = True
        self._stop(None)

    def _stop(self, outcome: Outcome | None) -> None:
        with self._lock:
            if self._ended_with is None:
                self._ended_with = outcome
            supervisors = [supervisor for supervisor in self._supervisors if supervisor]
        for supervisor in supervisors:
            supervisor.end()

    @property
    def _stopped(self) -> bool:
        return self._lost or self._ended_with is not None

    def _run(self) -> None:
        outcome: Outcome | None = None
        try:
            if self._prepared() and self._listener.running(self):
                outcome = self._attempt()
        except NodeLost:
            self._lost = True
        finally:
            self._dismiss()
            outcome = self._ended_with or outcome
            if outcome is not None and not self._lost:
                outcome = self._keep(outcome)
            self._listener.ended(self, None if self._lost else outcome)
            self.done.set()

    def _prepared(self) -> bool:
        agent, job = self._agent, self.task.job
        if not job.spec.get("jobPreparationTask"):
            return True
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            prepared = pool.map(partial(prepare, agent, job), self.nodes, self._generations)
            return all(prepared)

    def _attempt(self) -> Outcome | None:
        for task_folder in {*self._common, *self.task_folders}:
            task_folder.host.mkdir(parents=True, exist_ok=True)
        for task_folder in self.task_folders:
            task_folder.make()
        try:
            require_fit(self.nodes[0].pool.spec, self.task.spec.get("containerSettings"))
            settings = self.task.spec.get("multiInstanceSettings") or {}
            for task_folder in self._common:
                fetch(self._agent.blobs, settings.get("commonResourceFiles"), task_folder.host)
            main = self.task_folders[0].host / "wd"
            fetch(self._agent.blobs, self.task.spec.get("resourceFiles"), main)
        except ContainerError as error:
            return Outcome("preprocessing", None, failure(error.code, str(error)))
        except TransferError as error:
            return not_transferred(error, kind="preprocessing")
        for task_folder in self._common:
            layout.own(task_folder.host, self.task.spec.get("userIdentity"))
        for index, node in enumerate(self.nodes):
            supervisor = self._agent.supervise(node, self._generations[index])
            with self._lock:
                self._supervisors[index] = supervisor
            if self._stopped:
                return None
        bad = self._coordinate() if self.task.is_multi_instance else None
        if bad is not None or self._stopped:
            return bad
        return self._command(0, self.task.spec["commandLine"])

    def _coordinate(self) -> Outcome | None:
        """Runs the coordination command on all nodes at once. Returns the failure, or None."""
        line = self.task.spec["multiInstanceSettings"].get("coordinationCommandLine")
        if not line:
            return None
        outcomes: list[Outcome | None] = [None] * len(self.nodes)

        def run(index: int) -> None:
            outcomes[index] = outcome = self._command(index, line)
            if outcome and index:
                self._listener.subtask(self, index, outcome)
            if outcome is None or outcome.failure:
                self._stop_others(index)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(self.nodes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [i for i, outcome in enumerate(outcomes) if outcome and outcome.failure]
        if not failed:
            return None
        worst = outcomes[failed[0]]
        assert worst is not None
        if failed[0] == 0:
            return worst
        message = f"Subtask {failed[0]} of the multi-instance task failed"
        return Outcome(worst.kind, worst.exit_code, failure("SubtaskFailure", message))

    def _stop_others(self, failed: int) -> None:
        """Ends the other coordination commands, as one failure fails the task."""
        for index, supervisor in enumerate(self._supervisors):
            if supervisor and index != failed:
                supervisor.end()

    def _command(self, index: int, line: str) -> Outcome | None:
        supervisor = self._supervisors[index]
        assert supervisor is not None
        container = self.task.spec.get("containerSettings")
        variables = self._variables(index)
        identity = self.task.spec.get("userIdentity")
        return self._agent.run(
            supervisor, self.task_folders[index], line, variables, container, identity
        )

    def _variables(self, index: int) -> dict[str, str]:
        task, task_folder = self.task, self.task_folders[index]
        variables = environment.of_job(task.job, self._agent.layout.root(task_folder.node))
        variables |= environment.settings(task.spec.get("environmentSettings"))
        variables |= environment.of_folder(task.id, task_folder.seen)
        if task.is_multi_instance:
            variables |= environment.of_instance(self.nodes, index, self._common[index].seen)
        return variables

    def _dismiss(self) -> None:
        """Ends everything left on the nodes, as a task ends with its main command."""
        with self._lock:
            supervisors, self._supervisors = self._supervisors, [None] * len(self.nodes)
        for supervisor in supervisors:
            if supervisor:
                supervisor.end()
        for node, supervisor in zip(self.nodes, supervisors, strict=True):
            if supervisor:
                self._agent.dismiss(node, supervisor)

    def _keep(self, outcome: Outcome) -> Outcome:
        """Uploads the output files, unless the task is retried. A failed upload fails a task that
        succeeded."""
        files = self.task.spec.get("outputFiles")
        folder = self.task_folders[0].host / "wd"
        if not files or not folder.is_dir() or self._listener.will_retry(self.task, outcome):
            return outcome
        try:
            keep(self._agent.blobs, files, folder, success=outcome.failure is None)
        except TransferError as error:
            if outcome.failure is None:
                info = not_transferred(error, kind="upload").failure
                return Outcome("upload", outcome.exit_code, info)
        return outcome


def node_info(task_folder: TaskFolder) -> dict[str, Any]:
    node = task_folder.node
    return {
        "affinityId": f"TVM:{node.id}",
        "nodeUrl": node.url,
        "poolId": node.pool.id,
        "nodeId": node.id,
        "taskRootDirectory": task_folder.relative,
        "taskRootDirectoryUrl": f"{node.url}/files/{task_folder.relative}",
    }


def timed_out() -> Outcome:
    return ended("The task was ended because its maximum wall-clock time was over")
