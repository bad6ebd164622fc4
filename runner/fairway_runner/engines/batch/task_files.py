"""Files of a run's tasks on Batch: logs and samples, from their nodes or from storage.

A running task's file is read from its node, by ranges; the rest comes after its end from there too,
or from storage if the node is gone. Logs that neither has are reported as lost.

There is one look at a time, no matter who asks for it, and each writes at the position at which the
last completed one ended, so that an interrupted one leaves nothing twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.records import Fields, InvalidRecord, JsonRecord
from fairway_agent.spec import FIGURES
from fairway_boot.files import hold_lock, write_json
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.azure_storage import OUTPUTS, Storage
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.client import CONCURRENCY, Account
from fairway_runner.runs.figures import is_node_name
from fairway_runner.runs.records import read_if_there, read_specs

if TYPE_CHECKING:
    from fairway_agent.state_files import TaskState
    from fairway_runner.runs.folder import RunFolder

_CHUNK = 8 << 20
_PRINTED = "stdout.txt"
_SUBTASK_TAIL = 64 << 10
_MOST_SAMPLED = 64  # tasks per poll: each costs two requests
_MARKER = re.compile(r"[0-9]{1,4} \S{1,64}")


@dataclass(frozen=True)
class TaskFiles:
    """Files of the tasks of one of a run's jobs."""

    run: RunFolder
    account: Account
    storage: Storage
    job_id: str

    def read(
        self, task: int, name: str, offset: int = 0, *, ended: bool, blob: str = ""
    ) -> bytes | None:
        """Returns up to 8 MiB of a task's file from `offset` on, by its name on the node; empty at
        its end, None if it exists nowhere.

        Batch stores files before it reports that a task has `ended`: files that its node no longer
        has are in storage, as `blob` or under the file's own name in the folder of the task.
        """
        task_name, last = self.run.task_name(task), offset + _CHUNK - 1
        try:
            return self.account.task_file(self.job_id, task_name, name, offset, last)
        except ServiceError as error:
            if error.status == 416:  # no such range
                return b""
            if error.status not in (404, 409):  # no such file, or no such node
                raise
        if not ended:
            return None
        blob = blob or client.task_folder(self.run.id, task_name) + name.rpartition("/")[2]
        try:
            return self.storage.read(OUTPUTS, blob, offset, _CHUNK)
        except ServiceError as error:
            if error.is_missing:
                return None
            raise

    def marker(self, task: int, *, ended: bool) -> str:
        """Returns the marker that the node wrote when the last attempt began: its number and a
        unique text; "" if there is none, or the task has written anything else there. The service's
        own counts do not change when a node is preempted."""
        data = self.read(task, "wd/logs/attempt.txt", ended=ended)
        text = (data or b"").decode(errors="replace").strip()
        return text if _MARKER.fullmatch(text) else ""


@dataclass
class LogCopy(JsonRecord, label="the copy of a log"):
    """Progress of copying a task's log: the current `attempt`, its `marker` and when it `started`;
    how many bytes of it are copied (`offset`), and the size of the log with them (`size`); `done`
    if that is all. `begins` are the sizes at which attempts after the first began."""

    attempt: int = 0
    offset: int = 0
    size: int = 0
    done: bool = False
    marker: str = ""
    started: float | None = None
    begins: tuple[int, ...] = ()


@dataclass
class _LogCopies(JsonRecord, label="the copies of logs"):
    """Copies of a run's logs by task number; `complete` once all logs are here completely."""

    tasks: dict[str, LogCopy] = field(default_factory=dict)
    complete: bool = False

    @classmethod
    def read(cls, run: RunFolder) -> _LogCopies:
        """Reads `logs.json` in the run's folder."""
        return read_if_there(run.folder / "logs.json", cls.from_json) or cls()

    def write(self, run: RunFolder) -> None:
        """Replaces the file atomically."""
        write_json(run.folder / "logs.json", self.to_json())


def logs_are_complete(run: RunFolder) -> bool:
    """Returns True if the entire output of an ended run's tasks is in its folder."""
    return _LogCopies.read(run).complete


def reopen_logs(run: RunFolder) -> None:
    """Marks the logs as incomplete, because the run is retried."""
    with hold_lock(run.folder / "logs.lock"):
        copies = _LogCopies.read(run)
        if copies.complete:
            replace(copies, complete=False).write(run)


def follow_logs(files: TaskFiles, statuses: Mapping[int, TaskState]) -> dict[int, LogCopy]:
    """Appends new output of each task that has begun, from its last attempt with any; returns how
    far it is copied by task."""
    run = files.run
    with hold_lock(run.folder / "logs.lock"):
        copies = _LogCopies.read(run)
        copies.complete = False
        begun = {
            number: _TaskLog(files, number, status, copies.tasks.setdefault(str(number), LogCopy()))
            for number, status in statuses.items()
            if status.started
        }
        try:
            with ThreadPoolExecutor(CONCURRENCY) as pool:
                try:
                    for done in [pool.submit(each.follow) for each in begun.values()]:
                        done.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)  # wait for started copies
                    raise
            ended = all(status.is_final for status in statuses.values())
            copies.complete = ended and len(statuses) == run.record.tasks
        finally:
            copies.write(run)
    return {number: each.copy for number, each in begun.items()}


@dataclass
class _TaskLog:
    """The log of a task with that status, or the part that is copied."""

    files: TaskFiles
    number: int
    status: TaskState
    copy: LogCopy

    @property
    def _log(self) -> Path:
        return self.files.run.log(self.number)

    def follow(self) -> None:
        """Appends new output."""
        copy, status, ended = self.copy, self.status, self.status.is_final
        if copy.done and copy.attempt + 1 >= status.attempts:
            return
        self.files.run.own_file(self._log)
        if copy.started != status.started:
            marker = self.files.marker(self.number, ended=ended)
            if not marker and not ended:
                return  # no attempt has started on its node yet
            if marker != copy.marker or ended:
                self._begin(marker)
            # An earlier attempt's marker stays until the node has started this one.
            if ended or _number(marker) >= status.attempts - 1:
                copy.started = status.started
        found = self._copy(_PRINTED)
        if ended:
            if not found and copy.offset == 0 and status.exit_code is not None:
                self._add(b"fairway: what this task printed is lost with its node\n")
            if status.state == "failed":
                self._append_subtasks()
            copy.done, copy.attempt = True, max(copy.attempt, status.attempts - 1)
        if self._log.exists() and self._log.stat().st_size > copy.size:
            with self._log.open("r+b") as file:
                file.truncate(copy.size)  # left by an interrupted poll

    def _begin(self, marker: str) -> None:
        """Moves to the attempt of that marker, after the rest of those before it."""
        copy, least = self.copy, self.status.attempts - 1
        another = bool(copy.marker) and marker != copy.marker
        known = least if self.status.is_final else 0
        latest = max(copy.attempt + another, _number(marker), known)
        # The service may report nothing about a lost node, and so fewer attempts. If no node was
        # lost, an attempt without a log may never have started.
        lost = bool(self.status.requeues) or latest > least
        why = "lost its node, and the last lines that it printed" if lost else "left no more lines"
        while copy.attempt < latest:
            # The next attempt's node has the log of this one if they share a folder.
            is_lost = not copy.done and not self._copy(f"wd/logs/stdout.{copy.attempt}.txt")
            self._end_line()
            copy.begins += (copy.size,) * (copy.attempt + 1 - len(copy.begins))
            if is_lost:
                self._add(f"fairway: attempt {copy.attempt + 1} {why}\n".encode())
            copy.attempt, copy.offset, copy.done = copy.attempt + 1, 0, False
        copy.marker = marker

    def _copy(self, name: str) -> bool:
        """Appends the part of a file after the offset; returns False if it exists nowhere."""
        ended = self.status.is_final
        while True:
            data = self.files.read(self.number, name, self.copy.offset, ended=ended)
            if data is None:
                return False
            moves = name == _PRINTED and not ended  # the next attempt starts with an empty file
            if data and moves and self.files.marker(self.number, ended=False) != self.copy.marker:
                return True  # the data is the next attempt's: the next poll starts with it
            self._add(data)
            self.copy.offset += len(data)
            if len(data) < _CHUNK:
                return True

    def _add(self, data: bytes) -> None:
        """Writes after the copied part, over anything that an interrupted look has left."""
        if data:
            self._log.touch()
            with self._log.open("r+b") as file:
                file.seek(self.copy.size)
                file.write(data)
            self.copy.size += len(data)

    def _end_line(self) -> None:
        """Ends the last line, so that the next attempt's output begins a new one."""
        if not self.copy.size:
            return
        with self._log.open("rb") as file:
            file.seek(self.copy.size - 1)
            last = file.read(1)
        if last != b"\n":
            self._add(b"\n")

    def _append_subtasks(self) -> None:
        """Appends the last output of a task's other nodes that failed, each line with its node."""
        run, account = self.files.run, self.files.account
        spec = next(islice(read_specs(run.folder / "tasks.jsonl"), self.number, None), None)
        if spec is None or spec.nodes < 2:  # `finally:` has none
            return
        for subtask in account.subtasks(self.files.job_id, str(self.number)):
            info = subtask.get("nodeInfo") or {}
            root = info.get("taskRootDirectory")
            if str(subtask.get("result") or "").lower() != "failure" or not root:
                continue
            try:
                name = f"{root}/{_PRINTED}"
                data = account.node_file(str(info["nodeId"]), name, 0, _SUBTASK_TAIL)
            except ServiceError:
                continue  # its node is gone
            label = f"[node {subtask['id']}] ".encode()
            self._add(b"".join(label + line + b"\n" for line in data.splitlines()))


def _number(marker: str) -> int:
    return int(marker.split()[0]) if marker else 0


@dataclass(frozen=True)
class _SamplesCopy(JsonRecord, label="the copy of samples"):
    """Progress of copying a task's samples: the `marker` of the attempt whose file is copied, how
    many bytes of it (`offset`), how many attempts the task had when all was copied (`done`), and
    the time of each node's `last` sample.

    An attempt that Batch restarts on the same node finds the file unchanged, and appends to it;
    elsewhere it has a file of its own.
    """

    marker: str = ""
    offset: int = 0
    done: int | None = None
    last: dict[str, float] = field(default_factory=dict)


def copy_figures(files: TaskFiles) -> None:
    """Appends new samples to the file of each node; `figures.json` records how much was copied."""
    run = files.run
    with hold_lock(run.folder / "figures.lock"):
        copies = read_if_there(run.folder / "figures.json", _samples_copies) or {}
        running, ended = [], []
        for task in range(run.record.tasks):
            status = run.task_status(task)
            if status.state == "running":
                running.append(task)
            elif status.is_final and copies.get(str(task), _SamplesCopy()).done != status.attempts:
                ended.append(task)
        tasks = [*running, *ended][:_MOST_SAMPLED]
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            known = [copies.get(str(task), _SamplesCopy()) for task in tasks]
            found = list(
                pool.map(lambda task, copy: _read_samples(files, task, copy), tasks, known)
            )
        for task, (text, copy) in zip(tasks, found, strict=True):
            copies[str(task)] = replace(copy, last=_add_samples(run, text, copy.last))
        write_json(run.folder / "figures.json", {t: copy.to_json() for t, copy in copies.items()})


def _samples_copies(facts: object) -> dict[str, _SamplesCopy]:
    found = Fields(facts, "the copies").facts
    return {task: _SamplesCopy.from_json(each) for task, each in found.items()}


def _read_samples(files: TaskFiles, task: int, known: _SamplesCopy) -> tuple[bytes, _SamplesCopy]:
    """Returns the new complete lines of a task's file, and the progress that includes them."""
    status = files.run.task_status(task)
    ended = status.is_final
    marker = files.marker(task, ended=ended)
    offset = known.offset if known.marker == marker else 0
    text = b""
    while piece := files.read(task, "wd/logs/figures.txt", offset + len(text), ended=ended):
        text += piece
        if len(piece) < _CHUNK:
            break
    lines = text[: text.rfind(b"\n") + 1]
    done = status.attempts if ended else None
    return lines, _SamplesCopy(marker, offset + len(lines), done, known.last)


def _add_samples(run: RunFolder, text: bytes, last: dict[str, float]) -> dict[str, float]:
    """Appends the samples later than the `last` of their node: with another attempt some are read
    again. Returns the time of each node's last sample."""
    by_node: dict[str, list[bytes]] = {}
    last = {**last}
    for line in text.splitlines():
        # Tasks may write other lines there too.
        try:
            sample = Fields(json.loads(line), "a sample")
            node, time = sample.text("node"), sample.moment("time")
        except (ValueError, RecursionError, InvalidRecord):
            continue
        if is_node_name(node) and time > last.get(node, 0.0):
            by_node.setdefault(node, []).append(line)
            last[node] = time
    for node, lines in by_node.items():
        with run.own_file(run.folder / FIGURES / f"{node}.jsonl").open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
    return last
