"""Logs of tasks: as text, and as resumable events.

Several logs are merged into one: a line begins with its task, and if a launcher names ranks with
its rank, as in `[3.1] loss 0.5`, as `fairway logs` has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio

from fairway_core.findings import UserError
from fairway_runner.runs.folder import chosen_task
from fairway_runner.runs.log_lines import LogFile, Selection, ranks_wanted, require_labels
from fairway_web.threads import reading

if TYPE_CHECKING:
    from fairway_agent.state_files import RunState
    from fairway_runner.runs.store import Run

ALL = "all"
"""The value of `task` that selects all tasks."""
MOST = 256 << 10  # bytes of logs per answer
MOST_LOGS = 64  # logs that can be read as one
_PAUSE = 0.1  # seconds between two polls of a followed file
_SILENCE = 15.0  # seconds of silence until a comment keeps the stream alive
# Terminal control sequences, such as colours and cursor movements.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNPRINTED = {c: None for c in [*range(32), 127, *range(128, 160)] if c not in (9, 10)}


class Parts(NamedTuple):
    """A piece of each of some logs, and the offsets after them."""

    text: str
    ends: tuple[int, ...]

    @property
    def offsets(self) -> str:
        """Offsets as one word, from which a reader resumes."""
        return "-".join(map(str, self.ends))


@dataclass(frozen=True)
class Logs:
    """Logs merged into one, by the names that lines begin with; all lines, or one rank's."""

    files: Sequence[tuple[str, Path]]
    rank: int | None = None

    @classmethod
    def of(cls, run: Run, task: str, rank: str = "") -> Logs:
        """Returns the logs of one task or of all. Raises UserError for an unknown task, too many
        logs, and a rank that cannot be told apart."""
        if task != ALL:
            files = [("", log_of(run, task))]
        elif run.record.tasks > MOST_LOGS:
            message = f"{run.id} has {run.record.tasks:,} tasks: too many to read them as one"
            hint = f"read one of them; at most {MOST_LOGS} are read as one"
            raise UserError.of("too-many-logs", message, hint)
        else:
            files = [(run.task_name(i), run.log(i)) for i in range(run.record.tasks)]
        if not rank:
            return cls(files)
        if not _NUMBER.fullmatch(rank):
            raise UserError.of("bad-value", "`rank` is not a number", "0 is the first")
        # A task without other ranks needs no filter.
        if ranks_wanted(run, None if task == ALL else task, int(rank)) is None:
            return cls(files)
        require_labels(run, [path for _, path in files])
        return cls(files, int(rank))

    def starts(self, offsets: str) -> tuple[int, ...]:
        """Parses the offsets in a word, all 0 for none. Raises UserError for others."""
        numbers = offsets.split("-") if offsets else []
        if all(_NUMBER.fullmatch(each) for each in numbers):
            if len(numbers) == len(self.files):
                return tuple(map(int, numbers))
            if not any(map(int, numbers)):
                return (0,) * len(self.files)
        message = "`from` is not an offset in bytes"
        hint = "start at 0; continue with `Next-Offset` of the previous answer"
        raise UserError.of("bad-value", message, hint)

    def parts(self, starts: Sequence[int] | None = None, *, ended: bool = False) -> Parts:
        """Returns the lines from these offsets on, MOST bytes in all, or of each log whose first
        one is longer than its part of that; without offsets the end."""
        most = MOST // len(self.files)
        longest = most if starts is None else MOST
        ranks = None if self.rank is None else {self.rank}
        logs = [LogFile(*each) for each in self.files]
        selection, found = Selection(logs, ranks), []
        for number, log in enumerate(logs):
            size = log.path.stat().st_size if starts is None and log.path.exists() else 0
            log.offset = max(0, size - most if starts is None else starts[number])
            lines = list(log.piece(most, ended=ended, longest=longest))
            if size > most and len(lines) > 1:
                lines.pop(0)  # incomplete; but a progress bar may be a single line
            shown = bytearray()
            for line in selection.taken(lines):
                rank = "" if line.rank is None or self.rank is not None else str(line.rank)
                names = ".".join(filter(None, (log.name, rank)))
                shown += (f"[{names}] ".encode() if names else b"") + line.rest
            text = _plain(shown.decode("utf-8", "replace"))
            cut = log.name and text and not text.endswith("\n")
            found.append(text + "\n" if cut else text)
        return Parts("".join(found), tuple(log.offset for log in logs))


_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


def log_of(run: Run, task: str) -> Path:
    """Returns the log of a task, of `setup` or `finally`. Raises UserError for an unknown one."""
    if task == "setup" and (run.folder / "setup.jsonl").exists():
        return run.folder / "setup" / "log.txt"
    return run.log(chosen_task(run, task))


def _plain(text: str) -> str:
    """Returns the text that a terminal would show in the end: no colours, no overwritten lines."""
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).translate(_UNPRINTED)


async def follow(
    run: Run, logs: Logs, starts: Sequence[int], watch: Callable[[str], None]
) -> AsyncIterator[str]:
    """Yields the logs as server-sent events, whose ids are the offsets after them; the last one is
    `end`, with the run's state. `watch` is called at each look, as somebody reads the output."""
    silent, ends = 0.0, tuple(starts)
    while True:
        watch(run.id)
        try:
            state, found = await reading(_look, run, logs, ends)
        except (UserError, OSError):
            return  # the next request reports the error
        if any(now > before for now, before in zip(found.ends, ends, strict=True)):
            ends, silent = found.ends, 0.0
            yield f"id: {found.offsets}\ndata: {json.dumps(found.text)}\n\n"
            continue
        if state.is_final:
            yield f"event: end\nid: {found.offsets}\ndata: {json.dumps(state.state)}\n\n"
            return
        await anyio.sleep(_PAUSE)
        silent += _PAUSE
        if silent >= _SILENCE:
            silent = 0.0
            yield ": still here\n\n"


def _look(run: Run, logs: Logs, starts: Sequence[int]) -> tuple[RunState, Parts]:
    # The state is read first, so that the logs are complete if it is final.
    state = run.status
    return state, logs.parts(starts, ended=state.is_final)
