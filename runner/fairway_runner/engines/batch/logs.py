"""What tasks print, copied into the run's folder as it grows.

A running task's file is read from its node, by ranges; what is left when it has ended comes
from there too, or from storage where the node is gone. What neither has is named as lost.

One look at a time, no matter who asks for it; and each writes at the position at which the last one
that was completed ended, so that one that was cut off leaves nothing twice.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from fairway_agent.json_record import JsonRecord
from fairway_agent.record import alone, write_json
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.runs.records import known_as, read_specs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_agent.task_state import TaskState
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

_CHUNK = 8 << 20
_PRINTED = "stdout.txt"
_MARKER = "wd/logs/attempt.txt"
_NO_MORE = "left no more lines"
_SUBTASK_TAIL = 64 << 10
_FILE = "logs.json"
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range


@dataclass
class _Copy(JsonRecord):
    """Of a task's log: the `attempt` that is copied, whose `marker` that is and when it `started`;
    how many bytes of it (`offset`), and how many the log has with them (`size`); whether that is
    all."""

    CALLED = "the copy of a log"

    attempt: int = 0
    offset: int = 0
    size: int = 0
    done: bool = False
    marker: str = ""
    started: float | None = None


@dataclass
class _Copies(JsonRecord):
    """Those of a run by the numbers of its tasks; `complete` says that there is no more to come."""

    CALLED = "the copies of logs"

    tasks: dict[str, _Copy] = field(default_factory=dict)
    complete: bool = False


@dataclass
class Logs:
    """The logs of one run. `logs.json` in its folder says how much of each was copied."""

    run: RunFolder
    account: Account
    storage: Storage
    job_id: str
    copies: _Copies = field(default_factory=_Copies)

    @staticmethod
    def are_complete(run: RunFolder) -> bool:
        """Whether all that the tasks of an ended run printed is there."""
        known = known_as(run.folder / _FILE, _Copies.from_json)
        return known is not None and known.complete

    @staticmethod
    def reopen(run: RunFolder) -> None:
        """More is coming: the run is retried."""
        with alone(run.folder / "logs.lock"):
            if known := known_as(run.folder / _FILE, _Copies.from_json):
                known.complete = False
                write_json(run.folder / _FILE, known.to_json())

    def follow(self, statuses: Mapping[int, TaskState]) -> None:
        """Appends what is new of each task that has begun."""
        with alone(self.run.folder / "logs.lock"):
            self.copies = known_as(self.run.folder / _FILE, _Copies.from_json) or _Copies()
            self.copies.complete = False
            try:
                self._follow_all(statuses)
                ended = all(status.is_final for status in statuses.values())
                self.copies.complete = ended and len(statuses) == self.run.record.tasks
            finally:
                write_json(self.run.folder / _FILE, self.copies.to_json())

    def attempt(self, number: int) -> int:
        """The last attempt of a task that has printed anything, as far as it was followed."""
        return self.copies.tasks.get(str(number), _Copy()).attempt

    def _follow_all(self, statuses: Mapping[int, TaskState]) -> None:
        open_ = [
            (number, status)
            for number, status in statuses.items()
            if status.started and not self._is_done(number, status)
        ]
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            try:
                for done in [pool.submit(self._follow, *each) for each in open_]:
                    done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # what has begun is waited for
                raise

    def _of(self, number: int) -> _Copy:
        return self.copies.tasks.setdefault(str(number), _Copy())

    def _is_done(self, number: int, status: TaskState) -> bool:
        copy = self._of(number)
        return copy.done and copy.attempt + 1 >= status.attempts

    def _follow(self, number: int, status: TaskState) -> None:
        copy, ended = self._of(number), status.is_final
        log = self.run.log(number)
        log.parent.mkdir(parents=True, exist_ok=True)
        if copy.started != status.started:
            marker = self._marker(number, ended=ended)
            if not marker and not ended:
                return  # nothing of it has begun on its node
            if marker != copy.marker or ended:
                self._begin(number, copy, marker, status)
            # A marker of an attempt before it stays until the node has begun this one.
            if ended or _number(marker) >= status.attempts - 1:
                copy.started = status.started
        found = self._copy(number, copy, _PRINTED, ended=ended)
        if ended:
            if not found and copy.offset == 0 and status.exit_code is not None:
                self._add(number, b"fairway: what this task printed is lost with its node\n")
            if status.state == "failed":
                self._append_subtasks(number, status)
            copy.done, copy.attempt = True, max(copy.attempt, status.attempts - 1)
        if log.exists() and log.stat().st_size > copy.size:
            with log.open("r+b") as file:
                file.truncate(copy.size)  # of a look that was cut off

    def _marker(self, number: int, *, ended: bool) -> str:
        """What the node wrote when the attempt began that runs now, or ran last: its number, and
        a word of its own; "" where that is nowhere.

        The service's own counts say too little: neither moves when a node is preempted.
        """
        data = self._read(number, _MARKER, 0, ended=ended)
        return (data or b"").decode(errors="replace").strip()

    def _begin(self, number: int, copy: _Copy, marker: str, status: TaskState) -> None:
        """Goes on to the attempt of that marker, with the rest of those before it."""
        ended, least = status.is_final, status.attempts - 1
        another = bool(copy.marker) and marker != copy.marker
        latest = max(copy.attempt + another, _number(marker), least if ended else 0)
        # Of a lost node the service may tell nothing: then it knows of fewer attempts.
        lost = bool(status.requeues) or latest > least
        while copy.attempt < latest:
            self._finish_attempt(number, copy, ended=ended, lost=lost)
        copy.marker = marker

    def _finish_attempt(self, number: int, copy: _Copy, *, ended: bool, lost: bool) -> None:
        """Copies the rest of an attempt that another has followed, which the node of that one
        has where they share a folder. `lost` says that nodes of the task were lost: an attempt that
        was not may never have begun."""
        attempt = copy.attempt
        name = f"wd/logs/stdout.{attempt}.txt"
        if not copy.done and not self._copy(number, copy, name, ended=ended):
            self._end_line(number)
            why = "lost its node, and the last lines that it printed" if lost else _NO_MORE
            self._add(number, f"fairway: attempt {attempt + 1} {why}\n".encode())
        self._end_line(number)
        copy.attempt, copy.offset, copy.done = attempt + 1, 0, False

    def _copy(self, number: int, copy: _Copy, name: str, *, ended: bool) -> bool:
        """Appends what there is beyond the offset; False where the file is nowhere."""
        while True:
            data = self._read(number, name, copy.offset, ended=ended)
            if data is None:
                return False
            moves = name == _PRINTED and not ended  # another attempt begins with an empty file
            if data and moves and self._marker(number, ended=False) != copy.marker:
                return True  # it is of that one: the next look begins with it
            self._add(number, data)
            copy.offset += len(data)
            if len(data) < _CHUNK:
                return True

    def _add(self, number: int, data: bytes) -> None:
        """Writes behind what was copied, over anything that a look that was cut off left."""
        copy, log = self._of(number), self.run.log(number)
        if data:
            log.touch()
            with log.open("r+b") as file:
                file.seek(copy.size)
                file.write(data)
            copy.size += len(data)

    def _end_line(self, number: int) -> None:
        """Sees to it that what the next attempt prints begins a line."""
        size = self._of(number).size
        if size and _byte(self.run.log(number), size - 1) != b"\n":
            self._add(number, b"\n")

    def _read(self, number: int, name: str, offset: int, *, ended: bool) -> bytes | None:
        """Up to a chunk of a task's file; None where it is nowhere."""
        try:
            return self.account.task_file(
                self.job_id, self.run.task_name(number), name, offset, offset + _CHUNK - 1
            )
        except ServiceError as error:
            if error.status == 416:
                return b""
            if error.status not in _NOTHING_THERE:
                raise
        if not ended:
            return None
        try:
            blob = (
                names.task_folder(self.run.id, self.run.task_name(number)) + name.rpartition("/")[2]
            )
            return self.storage.read(OUTPUTS, blob, offset, _CHUNK)
        except ServiceError as error:
            if error.is_missing:
                return None
            raise

    def _append_subtasks(self, number: int, status: TaskState) -> None:
        """The last words of a task's other nodes that failed, each line with its node."""
        tasks = read_specs(self.run.folder / "tasks.jsonl")
        spec = next(islice(tasks, number, None), None)  # none of `finally:`
        if spec is None or spec.nodes < 2:
            return
        for subtask in self.account.subtasks(self.job_id, str(number)):
            info = subtask.get("nodeInfo") or {}
            root = info.get("taskRootDirectory")
            if str(subtask.get("result") or "").lower() != "failure" or not root:
                continue
            try:
                data = self.account.node_file(
                    str(info["nodeId"]), f"{root}/{_PRINTED}", 0, _SUBTASK_TAIL
                )
            except ServiceError:
                continue  # its node is gone
            label = f"[node {subtask['id']}] ".encode()
            lines = data.splitlines()
            self._add(number, b"".join(label + line + b"\n" for line in lines))


def _byte(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(1)


def _number(marker: str) -> int:
    return int(marker.split()[0]) if marker else 0
