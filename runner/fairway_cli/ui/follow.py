"""Copies logs to a stream as they grow: a single one unchanged, several line by line with labels.

Control sequences are those of ECMA-48, with BEL as an end of control strings, as in xterm.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import time
from dataclasses import field
from typing import TYPE_CHECKING, BinaryIO

from fairway_agent.quick import dataclass
from fairway_agent.state_files import NO_ROOM
from fairway_core.findings import printable
from fairway_runner.engines.capabilities import runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fairway_runner.runs.log_lines import Line, LogFile, Selection
    from fairway_runner.runs.store import Run

_BLOCK = 1 << 16
_PROBE_PAUSE = 5.0  # seconds between two attempts to write beside a run
# SGR parameters of ECMA-48: colours that are legible on black and on white.
_COLOURS = (b"36", b"33", b"35", b"32", b"34", b"31", b"96", b"93", b"95", b"92", b"94", b"91")


@dataclass
class Shape:
    """Format of log lines. If a launcher has labelled a line with its rank, `named` puts that label
    first, unless some ranks were chosen, and `coloured` gives it a colour of its own. With `json`
    each line is a record; `terminated` ends the last line, because other text follows."""

    coloured: bool = False
    named: bool = False
    json: bool = False
    terminated: bool = False

    def shown(self, line: Line, log: LogFile, selection: Selection) -> bytes:
        if self.json:
            # ASCII cannot move a terminal's cursor.
            task = int(log.name) if log.name.isdecimal() else log.name
            facts = {"task": task, "attempt": line.attempt, "rank": line.rank, "text": line.text}
            return json.dumps(facts).encode("ascii") + b"\n"
        chosen = selection.ranks is not None
        is_named = line.rank is not None and (self.coloured or (self.named and not chosen))
        names = [log.name] if len(selection.logs) > 1 else []
        colour = selection.logs.index(log)
        if is_named and line.rank is not None:
            names.append(str(line.rank))
            colour = line.rank
        begins = f"[{'.'.join(names)}]".encode()
        if self.coloured:
            begins = b"\x1b[%sm%s\x1b[0m" % (_COLOURS[colour % len(_COLOURS)], begins)
        text = line.rest if is_named or chosen else line.full
        text = text.removesuffix(b"\n").removesuffix(b"\r") + b"\n"
        return begins + b" " + text if names else text


def tail_offset(path: Path, lines: int) -> int:
    """Returns the offset at which the last lines of a log begin; 0 if it has no more."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        position = file.seek(0, 2)
        file.seek(max(0, position - 1))
        left = lines + (file.read() == b"\n")  # a final line break starts no further line
        while position > 0:
            start = max(0, position - _BLOCK)
            file.seek(start)
            block = file.read(position - start)
            while (end := block.rfind(b"\n")) >= 0:
                left -= 1
                if left <= 0:
                    return start + end + 1
                block = block[:end]
            position = start
    return 0


@dataclass
class Remarks:
    """Messages about a run that is followed, each once: why it waits, and its task's restarts.

    On a full disk the states of a local run do not change, and do not mention the disk; from
    `next_probe` on this is checked here.
    """

    run: Run
    reason: str = ""
    attempt: int = 0
    why: str = ""
    fault: str = ""
    next_probe: float = field(default_factory=lambda: time.monotonic() + _PROBE_PAUSE)

    def look(self) -> None:
        """Prints changes since the last look."""
        status = self.run.status
        reason = status.reason or ""
        if reason and reason != self.reason:
            self._say(f"is {status.state}: {reason}")
        self.reason = reason
        if not self.run.is_sweep:
            task = self.run.task_status(0)
            attempt = task.attempt or 0
            if attempt > self.attempt and task.state == "running":
                self._say(f"is at attempt {attempt + 1}{self.why and f': {self.why}'}")
                self.attempt, self.why = attempt, ""
            elif task.state == "queued":
                self.why = task.reason or ""
        if runs_here(self.run.record.engine) and time.monotonic() >= self.next_probe:
            from fairway_agent.shared.runs import write_fault  # most runs end before the first

            folder = self.run.folder.parent  # the run's own folder may have been removed
            fault = write_fault(folder)
            if fault != self.fault and fault in map(os.strerror, NO_ROOM):
                place = f"nothing can be written to {folder}: {fault}"
                self._say(f"waits, as {place}; to free some space: fairway clean")
            self.fault, self.next_probe = fault, time.monotonic() + _PROBE_PAUSE

    def _say(self, words: str) -> None:
        print(printable(f"{self.run.id} {words}"), file=sys.stderr, flush=True)


# A complete control string: these set titles, write to the clipboard, or request an answer. One
# that is longer than 4096 characters, or contains the start of another, counts as text: searching
# for the end of each of many would take quadratic time.
_STRING = (
    r"(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])"
    r"[^\x07\x18\x1a\x1b\x90\x98\x9c-\x9f\n]{0,4096}"
)
_BETWEEN = "[ -/]{0,256}"
_SEQUENCE = rf"(?:\x1b\[|\x9b)[0-?]{{0,256}}{_BETWEEN}"
_OBEYED = re.compile(
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)|{_SEQUENCE}[@-~]|\x1b{_BETWEEN}[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_CUT_OFF = re.compile(rf"(?:{_STRING}\x1b?|{_SEQUENCE}|\x1b{_BETWEEN})\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Screen:
    """Writer of UTF-8 to a terminal, in pieces of any size: text, tabs, line ends, carriage
    returns, and colours (SGR). Other control characters and sequences are dropped; invalid bytes
    are replaced."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, data: bytes) -> None:
        """Writes the next bytes, up to a sequence that may be incomplete."""
        is_begun = self._rest or self._decoder.getstate()[0]
        if not is_begun and data.isascii() and _CONTROL.search(data) is None:
            self._out.write(data)  # true for almost all output
            return
        text = self._rest + self._decoder.decode(data)
        cut = _CUT_OFF.search(text)
        self._rest = cut[0] if cut else ""
        self._show(text.removesuffix(self._rest))

    def end(self) -> None:
        """Writes the rest of the text, once no more will come."""
        self._show(self._rest + self._decoder.decode(b"", final=True))
        self._rest = ""

    def _show(self, text: str) -> None:
        shown = _OBEYED.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)
        self._out.write(shown.encode())


def copy_logs(
    run: Run,
    selection: Selection,
    out: BinaryIO,
    shape: Shape,
    *,
    follow: bool,
    remarks: bool = True,
) -> None:
    """Writes the tasks' known output, and with `follow` further output until the run ends,
    tolerating a target that is away for a while. With `remarks` standard error says why nothing
    comes."""
    remarked = Remarks(run)
    is_cut = False
    screen = None
    write: Callable[[bytes], object] = out.write
    if out.isatty():
        screen = Screen(out)
        write = screen.write
    # Reads after each poll what the tasks printed before it.
    for status in run.looks(logs=True) if follow else [None]:
        ended = status is None or status.is_final
        if remarks and not ended:
            remarked.look()
        for log in selection.logs:
            if ended or log.has_grown():
                for text in _texts(log, selection, shape, ended=ended):
                    write(text)
                    is_cut = not text.endswith(b"\n")
        selection.tail = None
        out.flush()
    if screen is not None:
        screen.end()
    out.write(b"\n" if is_cut and shape.terminated else b"")
    out.flush()


def _texts(log: LogFile, selection: Selection, shape: Shape, *, ended: bool) -> Iterator[bytes]:
    if not selection.is_one_log or shape.coloured or shape.named or shape.json:
        for line in selection.taken(log.lines(ended=ended)):
            yield shape.shown(line, log, selection)
        return
    if selection.tail is not None:
        log.offset = tail_offset(log.path, selection.tail)
    while text := log.read():
        yield text
