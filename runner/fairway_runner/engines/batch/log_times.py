"""When the logs of a run had which size: read from what each attempt noted on its node, and written
for the logs as they are put together here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.log_times import FILE, parsed
from fairway_agent.record import write_bytes
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.logs import Logs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

_MOST = 4 << 20  # bytes of a note
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range


def bring_log_times(
    run: RunFolder, account: Account, storage: Storage, job: str, logs: Sequence[Path]
) -> None:
    """Writes the note of each log beside it; see `fairway_agent.log_times`."""
    notes = _Notes(run, account, storage, job)
    numbers = {run.log(number): number for number in range(run.record.tasks)}
    known = [(numbers[log], log) for log in logs if log in numbers and log.exists()]
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for done in [pool.submit(notes.bring, *each) for each in known]:
            done.result()


@dataclass
class _Notes:
    run: RunFolder
    account: Account
    storage: Storage
    job: str

    def bring(self, number: int, log: Path) -> None:
        """Of one task, all of its attempts."""
        found = []
        begins, status = Logs.begins(self.run, number), self.run.task_status(number)
        for attempt, begin in enumerate(begins):
            last = attempt == len(begins) - 1
            name = "times.txt" if last else f"times.{attempt}.txt"
            data = self._read(number, name, ended=status.is_final)
            found += [f"{begin + size} {time}\n" for size, time in parsed(data)]
        if found:
            write_bytes(log.with_name(FILE), "".join(found).encode("ascii"))

    def _read(self, number: int, name: str, *, ended: bool) -> bytes:
        """A note, from its node or, once its task has ended, from storage; empty where neither has
        it."""
        task = self.run.task_name(number)
        try:
            return self.account.task_file(self.job, task, f"wd/logs/{name}", 0, _MOST - 1)
        except ServiceError as error:
            if error.status not in _NOTHING_THERE:
                raise
        if not ended:
            return b""
        try:
            return self.storage.read(OUTPUTS, names.task_folder(self.run.id, task) + name, 0, _MOST)
        except ServiceError as error:
            if error.is_missing or error.status == 416:
                return b""
            raise
