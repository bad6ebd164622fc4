"""Files of a run's tasks on Batch: logs and samples, from their nodes or from storage."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from fairway_agent.fields import Fields
from fairway_agent.figures import FOLDER
from fairway_agent.json_record import JsonRecord
from fairway_agent.record import alone, write_json
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.runs.figures import is_node_name
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


_FIGURES_CHUNK = 4 << 20
_SAMPLED = "figures.txt"
# Another text for each attempt. One that Batch begins on the same node finds the folder as it was,
# and adds to the file; elsewhere it has a file of its own.
_FIGURES_FILE = "figures.json"
_MOST = 64  # tasks at a look: each costs two requests
_LATEST = 253_402_300_800.0  # seconds since 1970, the year 10000


@dataclass(frozen=True)
class _FiguresCopy(JsonRecord):
    """Of a task's samples: the `marker` of the attempt whose file is copied, how many bytes of it
    (`offset`), how many attempts the task had when all was copied (`done`), and the time of each
    node's `last` sample."""

    CALLED = "the copy of samples"

    marker: str = ""
    offset: int = 0
    done: int | None = None
    last: dict[str, float] = field(default_factory=dict)


@dataclass
class Figures:
    """The samples of one run. `figures.json` in its folder says how much of each was copied."""

    run: RunFolder
    account: Account
    storage: Storage
    job_id: str

    def bring(self) -> None:
        """Adds new samples to the file of each node; running tasks come first."""
        with alone(self.run.folder / "figures.lock"):
            copies = known_as(self.run.folder / _FIGURES_FILE, _copies) or {}
            tasks = self._open_tasks(copies)
            (self.run.folder / FOLDER).mkdir(exist_ok=True)
            with ThreadPoolExecutor(CONCURRENCY) as pool:
                known = [copies.get(str(task), _FiguresCopy()) for task in tasks]
                found = list(pool.map(self._read, tasks, known))
            for task, (text, copy) in zip(tasks, found, strict=True):
                copies[str(task)] = replace(copy, last=self._add(text, copy.last))
            facts = {task: copy.to_json() for task, copy in copies.items()}
            write_json(self.run.folder / _FIGURES_FILE, facts)

    def _open_tasks(self, copies: Mapping[str, _FiguresCopy]) -> list[int]:
        """The tasks that may have more samples, at most `_MOST` of them."""
        running, ended = [], []
        for task in range(self.run.record.tasks):
            status = self.run.task_status(task)
            if status.state == "running":
                running.append(task)
            elif status.is_final and copies.get(str(task), _FiguresCopy()).done != status.attempts:
                ended.append(task)
        return [*running, *ended][:_MOST]

    def _read(self, task: int, known: _FiguresCopy) -> tuple[bytes, _FiguresCopy]:
        """The new whole lines of a task's file, and how much of it is copied with them."""
        status = self.run.task_status(task)
        ended = status.is_final
        marker = self._file(task, _MARKER, 0, ended=ended).decode(errors="replace").strip()
        offset = known.offset if known.marker == marker else 0
        text = b""
        while piece := self._file(task, f"wd/logs/{_SAMPLED}", offset + len(text), ended=ended):
            text += piece
            if len(piece) < _FIGURES_CHUNK:
                break
        whole = text[: text.rfind(b"\n") + 1]
        done = status.attempts if ended else None
        return whole, _FiguresCopy(marker, offset + len(whole), done, known.last)

    def _file(self, task: int, name: str, offset: int, *, ended: bool) -> bytes:
        """Up to a chunk of a task's file, from its node or, once it has ended, from storage; empty
        where neither has it. Batch stores the files before it says that a task has ended."""
        last = offset + _FIGURES_CHUNK - 1
        try:
            return self.account.task_file(self.job_id, self.run.task_name(task), name, offset, last)
        except ServiceError as error:
            if error.status not in _NOTHING_THERE:
                raise
            if error.status == 416 or not ended:
                return b""
        try:
            blob = (
                names.task_folder(self.run.id, self.run.task_name(task)) + name.rpartition("/")[2]
            )
            return self.storage.read(OUTPUTS, blob, offset, _FIGURES_CHUNK)
        except ServiceError as error:
            if error.is_missing or error.status == 416:
                return b""
            raise

    def _add(self, text: bytes, last: dict[str, float]) -> dict[str, float]:
        """Adds the samples that are later than the `last` of their node: with another attempt some
        are read again. Returns the time of each node's last sample."""
        by_node: dict[str, list[bytes]] = {}
        last = {**last}
        for line in text.splitlines():
            if (found := _origin(line)) is None:
                continue
            node, time = found
            if time > last.get(node, 0.0):
                by_node.setdefault(node, []).append(line)
                last[node] = time
        for node, lines in by_node.items():
            with (self.run.folder / FOLDER / f"{node}.jsonl").open("ab") as file:
                file.write(b"".join(line + b"\n" for line in lines))
        return last


def _copies(facts: object) -> dict[str, _FiguresCopy]:
    """Of a run's tasks by their numbers."""
    found = Fields(facts, "the copies").facts
    return {task: _FiguresCopy.from_json(each) for task, each in found.items()}


def _origin(line: bytes) -> tuple[str, float] | None:
    """The node and the time of a sample; None for any other line, as a task may write to the file
    too."""
    try:
        sample = json.loads(line)
    except (ValueError, RecursionError):
        return None
    node, time = (sample.get("node"), sample.get("time")) if isinstance(sample, dict) else (0, 0)
    if not isinstance(node, str) or not is_node_name(node):
        return None
    return (node, float(time)) if isinstance(time, int | float) and 0 < time < _LATEST else None
