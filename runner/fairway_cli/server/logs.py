"""`fairway logs` of a server's runs: what their files have, copied here and shown as ever."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import typer

from fairway_cli.server.connection import Allowance, quoted
from fairway_cli.server.runs import Patience, looked_at, state_of
from fairway_core.findings import UserError

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Mapping, Sequence

    from fairway_cli.server.connection import Server
    from fairway_cli.ui.follow import Selection

_PAUSE = 0.5  # seconds before a stream is asked for again
_FAILED = 5
_MOST_PIECES = 1_000_000
_MOST_BYTES = 16 << 30  # they are copied to a disk here


def logs_command(
    server: Server,
    *,
    run: str,
    follow: bool,
    task: str | None,
    rank: int | None,
    node: int | None,
    attempt: int | None,
    tail: int | None,
    grep: str | None,
    json_: bool,
) -> None:
    """As `fairway logs`; see there."""
    from fairway_runner.runs.log_lines import pattern

    expression = pattern(grep)
    found, away = (state_of(server, run), False) if follow else looked_at(server, run)
    with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
        logs = _Logs.of(server, found, task, Path(folder))
        ranks = logs.ranks(rank, node)
        selection = logs.selection(ranks, expression, tail, attempt, json_=json_)
        try:
            if not follow or tail is not None or ranks is not None:
                logs.read()
            if ranks is not None:
                logs.require_labels()
            if attempt is not None and not follow:
                logs.require_attempt(attempt)
            state = logs.follow(selection) if follow else logs.show(selection)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    if state == "lost":
        _refuse_lost(server, found["run_id"])
    if away:
        raise typer.Exit(_FAILED)


def follow_run(server: Server, run_id: str, out: BinaryIO) -> None:
    """Shows the log of a run as it grows, until the run has ended."""
    with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
        logs = replace(_Logs.of(server, state_of(server, run_id), None, Path(folder)), out=out)
        selection = logs.selection(None, None, None, None, json_=False)
        selection.whole = out is sys.stdout.buffer
        logs.follow(selection)


def _refuse_lost(server: Server, run_id: str) -> NoReturn:
    """UserError with exit code 5 where a run that was followed is lost."""
    reason = state_of(server, run_id)["reason"] or "its target no longer knows it"
    hint = f"run it again: fairway retry {run_id}"
    raise UserError.of("lost-run", f"{run_id} is lost: {reason}", hint, exit_code=_FAILED)


@dataclass
class _Logs:
    """The logs that are wanted of a run, each with a file here that what it has is added to."""

    server: Server
    state: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]
    files: Mapping[str, Path]
    is_all: bool
    out: BinaryIO | None = None
    """Where they are shown; by default on standard output."""
    size: int = 0
    """The bytes that were brought."""

    @classmethod
    def of(cls, server: Server, state: Mapping[str, Any], task: str | None, folder: Path) -> _Logs:
        """Those of a task, or of all."""
        facts = server.get(f"/runs/{quoted(state['run_id'])}")
        with server.understood():
            tasks = facts["task_list"]
            names = [str(each["task"]) for each in tasks] if task is None else [task]
            if task is None and facts["setup"] is not None:
                names.insert(0, "setup")
        files = {name: folder / str(number) for number, name in enumerate(names)}
        return cls(server, state, tasks, files, task is None)

    @property
    def _path(self) -> str:
        return f"/runs/{quoted(self.state['run_id'])}/log"

    @property
    def _chosen(self) -> list[Mapping[str, Any]]:
        """The tasks whose logs are wanted."""
        return [each for each in self.tasks if str(each["task"]) in self.files]

    def ranks(self, rank: int | None, node: int | None) -> Collection[int] | None:
        """The ranks that are asked for; None is all of them."""
        from fairway_runner.runs.log_lines import Whole

        if rank is None and node is None:
            return None
        with self.server.understood():
            task = [*self._chosen, *self.tasks][0]
            counts = [int(task[name]) for name in ("nodes", "processes_per_node")]
            return Whole(self.state["run_id"], len(self.tasks), *counts).ranks(rank, node)

    def require_labels(self) -> None:
        """UserError where ranks cannot be told apart."""
        from fairway_runner.runs.log_lines import require_labelled

        if not self.state["labels_ranks"]:
            require_labelled(self.state["run_id"], self.files.values())

    def require_attempt(self, attempt: int) -> None:
        """UserError where no task has it."""
        from fairway_runner.runs.log_lines import require_attempt_of

        with self.server.understood():
            counts = {str(each["task"]): int(each["attempts"]) for each in self._chosen}
        require_attempt_of(self.state["run_id"], counts, self.files, attempt)

    def selection(
        self,
        ranks: Collection[int] | None,
        grep: re.Pattern[str] | None,
        tail: int | None,
        attempt: int | None,
        *,
        json_: bool,
    ) -> Selection:
        """What of them is shown, and how."""
        from fairway_cli.ui.columns import has_colours
        from fairway_cli.ui.follow import LineFilter, Log, Selection

        named = self.state["labels_ranks"]
        several = named or (self.is_all and len(self.tasks) > 1)
        lines = LineFilter(ranks, grep, several and not json_ and has_colours(), named)
        logs = [Log(name, file) for name, file in self.files.items()]
        return Selection((), lines, tail, attempt, logs, json_)

    def read(self) -> None:
        """Brings what they have by now."""
        for name in self.files:
            offset, allowance = "0", Allowance(_MOST_PIECES, _MOST_BYTES)
            while True:
                query = [("task", name), ("raw", "true"), ("from", offset)]
                answer = self.server.answer("GET", self._path, query)
                following = answer.headers.get("next-offset", "")
                allowance.take(self.server, len(answer.body))
                self._add(name, answer.body)
                if following in ("", offset) or not answer.body:
                    break
                offset = following

    def _add(self, name: str, data: bytes) -> None:
        self.size += len(data)
        if self.size > _MOST_BYTES:
            raise self.server.strange("its answer does not end")
        with self.files[name].open("ab") as out:
            out.write(data)

    def show(self, selection: Selection) -> str:
        """Shows what was brought."""
        self._show(selection, selection.tail, ended=True)
        return ""

    def follow(self, selection: Selection) -> str:
        """Shows what they have and get until the run has ended, and how it has; where the server
        is away meanwhile, it goes on where it stopped."""
        patience, tail, offset = Patience(), selection.tail, ""
        if any(file.exists() for file in self.files.values()):
            sizes = [file.stat().st_size if file.exists() else 0 for file in self.files.values()]
            offset = "-".join(map(str, sizes))
            self._show(selection, tail, ended=False)
            tail = None
        task = "all" if len(self.files) > 1 else next(iter(self.files))
        while True:
            try:
                with self.server.events(
                    self._path, [("task", task), ("raw", "true")], offset
                ) as events:
                    for at, kind, data in events:
                        patience.heard()
                        offset, state = at, self._took(kind, data)
                        self._show(selection, tail, ended=state is not None)
                        tail = None
                        if state is not None:
                            return state
            except UserError as error:
                patience.missed(error)
            time.sleep(_PAUSE)

    def _took(self, kind: str, data: str) -> str | None:
        """Adds what an event has; the run's state where it is the last."""
        with self.server.understood():
            told = json.loads(data)
            if kind == "end":
                return str(told)
            for name, text in told.items():
                self._add(name, text.encode("utf-8", "surrogateescape"))
        return None

    def _show(self, selection: Selection, tail: int | None, *, ended: bool) -> None:
        from fairway_cli.ui.follow import show_grown

        show_grown(selection, self.out or sys.stdout.buffer, ended=ended, tail=tail)
