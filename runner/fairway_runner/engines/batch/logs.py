"""What tasks print, copied into the run's folder as it grows.

A running task's file is read from its node, by ranges; what is left when it has ended comes
from there too, or from storage where the node is gone. What neither has is named as lost.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.calls import ServiceError
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.storage import OUTPUTS
from fairway_runner.engines.local.records import read_json, write_json
from fairway_runner.runs.records import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.client import Account
    from fairway_runner.engines.batch.storage import Storage
    from fairway_runner.runs.store import Run

_CHUNK = 8 << 20
_FILE = "stdout.txt"
_SUBTASK_TAIL = 64 << 10
_FACTS = "logs.json"
_NOTHING_THERE = (404, 409, 416)  # no such file or node; no such range


@dataclass
class Logs:
    """The logs of one run. `logs.json` in its folder says how much of each was copied."""

    run: Run
    account: Account
    storage: Storage
    job_id: str

    @staticmethod
    def are_complete(run: Run) -> bool:
        """Whether all that the tasks of an ended run printed is there."""
        return bool(read_json(run.folder / _FACTS).get("complete"))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """For each task: the attempt that is copied, how many bytes of it, whether all."""
        return read_json(self.run.folder / _FACTS) or {"tasks": {}}

    def follow(self, statuses: Mapping[int, Mapping[str, Any]]) -> None:
        """Appends what is new of each task that has begun."""
        open_ = [
            (number, status)
            for number, status in statuses.items()
            if status.get("started") and not self._is_done(number, status)
        ]
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            for done in [pool.submit(self._follow, *each) for each in open_]:
                done.result()
        ended = all(status["state"] in FINAL_STATES for status in statuses.values())
        self.facts["complete"] = ended and len(statuses) == self.run.record.tasks
        write_json(self.run.folder / _FACTS, self.facts)

    def _of(self, number: int) -> dict[str, Any]:
        facts: dict[str, Any] = self.facts["tasks"].setdefault(
            str(number), {"attempt": 0, "offset": 0, "done": False}
        )
        return facts

    def _is_done(self, number: int, status: Mapping[str, Any]) -> bool:
        facts = self._of(number)
        return bool(facts["done"]) and facts["attempt"] >= status["attempt"]

    def _follow(self, number: int, status: Mapping[str, Any]) -> None:
        facts = self._of(number)
        attempt, ended = int(status["attempt"]), status["state"] in FINAL_STATES
        log = self.run.log(number)
        log.parent.mkdir(parents=True, exist_ok=True)
        while facts["attempt"] < attempt:
            if not self._finish_attempt(number, facts, attempt, ended=ended):
                return
        found = self._copy(number, facts, _FILE, ended=ended)
        if ended:
            if not found and facts["offset"] == 0 and status.get("exit_code") is not None:
                _append(log, b"fairway: what this task printed is lost with its node\n")
            if status["state"] == "failed":
                self._append_subtasks(number, status)
            facts["done"] = True

    def _finish_attempt(
        self, number: int, facts: dict[str, Any], latest: int, *, ended: bool
    ) -> bool:
        """Copies the rest of an attempt that another has followed; False where that has not
        yet brought it to its own node."""
        attempt = facts["attempt"]
        known = facts["done"] or self._copy(
            number, facts, f"wd/logs/stdout.{attempt}.txt", ended=ended
        )
        if not known:
            if not ended and not self._has_begun(number, latest):
                return False
            text = f"fairway: attempt {attempt} lost its node, and with it what it printed last\n"
            _append(self.run.log(number), text.encode())
        facts.update(attempt=attempt + 1, offset=0, done=False)
        return True

    def _has_begun(self, number: int, attempt: int) -> bool:
        try:
            text = self.account.task_file(self.job_id, str(number), "wd/fairway.attempt", 0, 15)
        except ServiceError as error:
            if error.status in _NOTHING_THERE:
                return False
            raise
        return int(text or 0) >= attempt

    def _copy(self, number: int, facts: dict[str, Any], name: str, *, ended: bool) -> bool:
        """Appends what there is beyond the offset; False where the file is nowhere."""
        log = self.run.log(number)
        while True:
            data = self._read(number, name, facts["offset"], ended=ended)
            if data is None:
                return False
            _append(log, data)
            facts["offset"] += len(data)
            if len(data) < _CHUNK:
                return True

    def _read(self, number: int, name: str, offset: int, *, ended: bool) -> bytes | None:
        """Up to a chunk of a task's file; None where it is nowhere."""
        try:
            return self.account.task_file(
                self.job_id, str(number), name, offset, offset + _CHUNK - 1
            )
        except ServiceError as error:
            if error.status == 416:
                return b""
            if error.status not in _NOTHING_THERE:
                raise
        if not ended:
            return None
        try:
            blob = names.task_folder(self.run.id, number) + name.rpartition("/")[2]
            return self.storage.read(OUTPUTS, blob, offset, _CHUNK)
        except ServiceError as error:
            if error.is_missing:
                return None
            raise

    def _append_subtasks(self, number: int, status: Mapping[str, Any]) -> None:
        """The last words of a task's other nodes that failed, each line with its node."""
        spec = self._spec(number)
        if spec.get("nodes", 1) < 2:
            return
        for subtask in self.account.subtasks(self.job_id, str(number)):
            info = subtask.get("nodeInfo") or {}
            if str(subtask.get("result") or "").lower() != "failure" or not info:
                continue
            root = str(info["taskRootDirectory"])
            try:
                data = self.account.node_file(
                    str(info["nodeId"]), f"{root}/{_FILE}", 0, _SUBTASK_TAIL
                )
            except ServiceError:
                continue  # its node is gone
            label = f"[node {subtask['id']}] ".encode()
            lines = data.splitlines()
            _append(self.run.log(number), b"".join(label + line + b"\n" for line in lines))

    def _spec(self, number: int) -> dict[str, Any]:
        with (self.run.folder / "tasks.jsonl").open("rb") as lines:
            for position, line in enumerate(lines):
                if position == number:
                    spec: dict[str, Any] = json.loads(line)
                    return spec
        return {}


def _append(log: Any, data: bytes) -> None:
    if data:
        with log.open("ab") as file:
            file.write(data)
