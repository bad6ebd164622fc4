"""What tasks have printed: as text, and as events that go on where a reader left off."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio import to_thread

from fairway_core.findings import UserError
from fairway_runner.runs.chosen import chosen_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from fairway_agent.run_state import RunState
    from fairway_runner.runs.store import Run

MOST = 256 << 10  # bytes of a log that are sent at once
_PAUSE = 0.1  # seconds between two looks at a file that somebody follows
_SILENCE = 15.0  # seconds after which a comment tells that we are still here
# Colours and cursor movements of terminals.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNPRINTED = {c: None for c in [*range(32), 127, *range(128, 160)] if c not in (9, 10)}


class Part(NamedTuple):
    """A piece of a log, and the offset in bytes behind it."""

    text: str
    end: int


def log_of(run: Run, task: str) -> Path:
    """The log of one task, by its number, or of `setup` or `finally`; UserError where the run has
    no such task."""
    if task == "setup" and (run.folder / "setup.jsonl").exists():
        return run.folder / "setup" / "log.txt"
    return run.log(chosen_task(run, task))


def plain(text: str) -> str:
    """What a terminal would show in the end: no colours, and of a line that was written over
    its last state."""
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).translate(_UNPRINTED)


def part(path: Path, start: int, *, ended: bool = False) -> Part:
    """Whole lines from an offset on, at most MOST bytes; a line without an end where the log has
    ended, or where it is longer than that."""
    try:
        with path.open("rb") as file:
            start = min(max(0, start), os.fstat(file.fileno()).st_size)
            file.seek(start)
            data = file.read(MOST)
    except FileNotFoundError:
        return Part("", 0)
    is_all = ended and len(data) < MOST
    whole = len(data) if is_all else data.rfind(b"\n") + 1
    if not whole and len(data) == MOST:
        whole = len(data)
    return Part(plain(data[:whole].decode("utf-8", "replace")), start + whole)


def last_part(path: Path, *, ended: bool) -> Part:
    """The end of a log, from the beginning of a line on."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return Part("", 0)
    if size <= MOST:
        return part(path, 0, ended=ended)
    found = part(path, size - MOST, ended=ended)
    _, end, rest = found.text.partition("\n")
    return Part(rest if end else found.text, found.end)  # a progress bar may never end its line


async def follow(
    run: Run, path: Path, start: int, watch: Callable[[str], None]
) -> AsyncIterator[str]:
    """The log as server-sent events, each with the offset behind it as its id, until the run has
    ended; the last event is `end` with the run's state. `watch` is told at each look that somebody
    reads what the run prints."""
    silent = 0.0
    while True:
        watch(run.id)
        try:
            state, found = await to_thread.run_sync(_look, run, path, start)
        except (UserError, OSError):
            return  # whoever asks again is told what is wrong with the run
        if found.end > start:
            start, silent = found.end, 0.0
            yield f"id: {start}\ndata: {json.dumps(found.text)}\n\n"
            continue
        if state.is_final:
            yield f"event: end\nid: {start}\ndata: {json.dumps(state.state)}\n\n"
            return
        await anyio.sleep(_PAUSE)
        silent += _PAUSE
        if silent >= _SILENCE:
            silent = 0.0
            yield ": still here\n\n"


def _look(run: Run, path: Path, start: int) -> tuple[RunState, Part]:
    # The state is read first: what was printed before the end is there by then.
    state = run.status
    return state, part(path, start, ended=state.is_final)
