"""Reports that tasks write about themselves: how they ended, and their share of a node."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_agent.batch.ending import FILE, Ending
from fairway_agent.fields import Unfit
from fairway_agent.limits import Over
from fairway_agent.plan import WARN
from fairway_agent.record import read_json
from fairway_agent.share import SHARE_FILE, Lent, ranges
from fairway_agent.task_state import IO_ERROR
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.request_builder import is_told
from fairway_runner.runs.records import known_state, read_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_agent.task_state import TaskState
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.engines.batch.submission import State
    from fairway_runner.runs.folder import RunFolder


_MOST = 64 << 10  # bytes of what a task says
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range
_SAID_BY_TASK = ("state", "exit_code", "reason", "held", "ends", "timed_out")


@dataclass
class Endings:
    """What the tasks of one run have said of their ends."""

    run: RunFolder
    account: Account
    storage: Storage
    state: State

    def add(
        self, found: dict[int, TaskState], known: Callable[[RunFolder, int], TaskState | None]
    ) -> Over | None:
        """Completes the states of tasks that have ended, of which each is asked for once; the limit
        that the run was over, if it was over one."""
        plan = read_plan(self.run.folder)
        told = is_told(plan)
        warns = plan.idle_gpu is not None and plan.idle_gpu.then == WARN
        new = []
        for number, status in found.items():
            # One whose outputs were not kept says which, for as long as its node is there.
            if not (told or status.exit_code == IO_ERROR):
                continue
            if not status.is_final or status.exit_code is None:
                if warns and status.state == "running":
                    new.append(number)
                continue
            before = known(self.run, number)
            if before is not None and before.is_final and before.ended == status.ended:
                found[number] = before
            else:
                new.append(number)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            endings = list(pool.map(self._read, new))
        over = None
        for number, ending in zip(new, endings, strict=True):
            known_to_batch = found[number]
            if ending is None or (status := said(known_to_batch, ending)) is known_to_batch:
                continue
            found[number] = status
            if ending.limit is not None and status.is_final:
                over = over or Over(ending.limit, ending.why or ending.limit)
        return over or self._noted()

    def _noted(self) -> Over | None:
        """What was found before."""
        state = known_state(self.run.folder)
        if state is None or state.limit is None:
            return None
        return Over(state.limit, state.reason or state.limit)

    def _read(self, number: int) -> Ending | None:
        """None where it says nothing, or what our own program did not write."""
        try:
            ending = Ending.from_json(json.loads(self._file(number)))
        except (ValueError, RecursionError, Unfit):
            return None
        name = self.run.task_name(number)
        return ending if (ending.job, ending.task) == (self.state.job, name) else None

    def _file(self, number: int) -> bytes:
        name = self.run.task_name(number)
        try:
            return self.account.task_file(self.state.job, name, f"wd/logs/{FILE}", 0, _MOST)
        except ServiceError as error:
            if error.status not in _NOTHING_THERE:
                raise
        try:
            folder = names.endings_folder(self.run.id, self.state.generation)
            return self.storage.read(OUTPUTS, f"{folder}{name}/{FILE}", 0, _MOST)
        except ServiceError as error:
            if error.is_missing:
                return b""
            raise


def said(status: TaskState, ending: Ending) -> TaskState:
    """What the service knows of a task that has ended, with what the task itself has said. A task
    that says something else of its exit code has been ended later, or is not what it was."""
    told = ending.state
    if told.state == status.state == "running" and told.attempt == status.attempt:
        return replace(status, reason=told.reason)
    if told.exit_code != status.exit_code or not told.is_final:
        return status
    facts = {name: getattr(told, name) for name in _SAID_BY_TASK}
    facts["reason"] = told.reason or status.reason
    attempt = status.attempt if told.attempt is None else told.attempt
    return replace(status, **facts, attempt=attempt)


@dataclass
class Shares:
    """What the tasks of one run have said that they were lent of their nodes."""

    run: RunFolder
    account: Account
    storage: Storage
    job_id: str

    def add(
        self, found: dict[int, TaskState], known: Callable[[RunFolder, int], TaskState | None]
    ) -> None:
        """Completes the states of tasks that have begun; each is asked for once an attempt."""
        job = read_json(self.run.folder / "job.json")
        if job.get("gpus") is None and job.get("cores") is None:
            return
        new = []
        for number, status in found.items():
            if not status.started or status.state == "queued":
                continue
            before = known(self.run, number)
            is_same = before is not None and before.started == status.started
            if before is not None and is_same and (before.part is not None or before.is_final):
                found[number] = replace(
                    status, gpus=before.gpus, cores=before.cores, part=before.part
                )
            else:
                new.append(number)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            states = pool.map(lambda number: self._complete(number, found[number]), new)
            found.update(zip(new, states, strict=True))

    def _complete(self, number: int, status: TaskState) -> TaskState:
        try:
            lent = Lent.from_json(json.loads(self._read(number, ended=status.is_final)))
        except (ValueError, RecursionError, Unfit):
            return status  # it waits on its node, or is not what our own program wrote
        if lent.attempt < status.attempts - 1:
            return status  # of an attempt before, in the same folder
        return replace(status, gpus=ranges(lent.gpus), cores=ranges(lent.cores), part=lent.part)

    def _read(self, number: int, *, ended: bool) -> bytes:
        name = self.run.task_name(number)
        try:
            return self.account.task_file(self.job_id, name, f"wd/logs/{SHARE_FILE}", 0, _MOST)
        except ServiceError as error:
            if error.status not in _NOTHING_THERE:
                raise
        if not ended:
            return b""
        try:
            blob = names.task_folder(self.run.id, name) + SHARE_FILE
            return self.storage.read(OUTPUTS, blob, 0, _MOST)
        except ServiceError as error:
            if error.is_missing:
                return b""
            raise
