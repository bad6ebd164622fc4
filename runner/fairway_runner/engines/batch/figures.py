"""What was sampled on the nodes of a run, read from the files of its tasks as they grow."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
from fairway_runner.runs.records import known_as

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

_CHUNK = 4 << 20
_SAMPLED = "figures.txt"
# Another text for each attempt. One that Batch begins on the same node finds the folder as it was,
# and adds to the file; elsewhere it has a file of its own.
_MARKER = "wd/logs/attempt.txt"
_FILE = "figures.json"
_MOST = 64  # tasks at a look: each costs two requests
_LATEST = 253_402_300_800.0  # seconds since 1970, the year 10000
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range


@dataclass(frozen=True)
class _Copy(JsonRecord):
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
            copies = known_as(self.run.folder / _FILE, _copies) or {}
            tasks = self._open_tasks(copies)
            (self.run.folder / FOLDER).mkdir(exist_ok=True)
            with ThreadPoolExecutor(CONCURRENCY) as pool:
                known = [copies.get(str(task), _Copy()) for task in tasks]
                found = list(pool.map(self._read, tasks, known))
            for task, (text, copy) in zip(tasks, found, strict=True):
                copies[str(task)] = replace(copy, last=self._add(text, copy.last))
            facts = {task: copy.to_json() for task, copy in copies.items()}
            write_json(self.run.folder / _FILE, facts)

    def _open_tasks(self, copies: Mapping[str, _Copy]) -> list[int]:
        """The tasks that may have more samples, at most `_MOST` of them."""
        running, ended = [], []
        for task in range(self.run.record.tasks):
            status = self.run.task_status(task)
            if status.state == "running":
                running.append(task)
            elif status.is_final and copies.get(str(task), _Copy()).done != status.attempts:
                ended.append(task)
        return [*running, *ended][:_MOST]

    def _read(self, task: int, known: _Copy) -> tuple[bytes, _Copy]:
        """The new whole lines of a task's file, and how much of it is copied with them."""
        status = self.run.task_status(task)
        ended = status.is_final
        marker = self._file(task, _MARKER, 0, ended=ended).decode(errors="replace").strip()
        offset = known.offset if known.marker == marker else 0
        text = b""
        while piece := self._file(task, f"wd/logs/{_SAMPLED}", offset + len(text), ended=ended):
            text += piece
            if len(piece) < _CHUNK:
                break
        whole = text[: text.rfind(b"\n") + 1]
        done = status.attempts if ended else None
        return whole, _Copy(marker, offset + len(whole), done, known.last)

    def _file(self, task: int, name: str, offset: int, *, ended: bool) -> bytes:
        """Up to a chunk of a task's file, from its node or, once it has ended, from storage; empty
        where neither has it. Batch stores the files before it says that a task has ended."""
        last = offset + _CHUNK - 1
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
            return self.storage.read(OUTPUTS, blob, offset, _CHUNK)
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


def _copies(facts: object) -> dict[str, _Copy]:
    """Of a run's tasks by their numbers."""
    found = Fields(facts, "the copies").facts
    return {task: _Copy.from_json(each) for task, each in found.items()}


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
