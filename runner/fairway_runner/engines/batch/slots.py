"""Parts of a pool's nodes: how many task slots a task takes, and what it says that it was lent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_agent.fields import Unfit
from fairway_agent.record import read_json
from fairway_agent.share import SHARE_FILE, Lent, ranges
from fairway_core.catalog import vm_size
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_agent.share import Wanted
    from fairway_agent.task_state import TaskState
    from fairway_core.target import Target
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

_MOST = 64 << 10  # bytes of what a task says
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range


def required(target: Target, wanted: Wanted | None) -> int | None:
    """How many of a node's slots a task takes: as large a part of them as of the node, and all
    where it takes the whole; None where nodes have one slot."""
    slots = target.batch.task_slots if target.batch else None
    if slots is None or wanted is None:
        return slots
    size = vm_size(target.vm_size)
    gpus = size.gpu.count if size.gpu else 1
    parts = ((wanted.gpus or 0, gpus), (wanted.cores or 0, size.vcpus))
    return max(1, *(-(-slots * count // whole) for count, whole in parts))


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
