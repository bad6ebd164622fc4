"""Text of other machines on a terminal: its colours stay, and nothing else that a terminal obeys.

Sequences are those of ECMA-48, with BEL as an end of control strings, as xterm has it.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

# A control string up to its end: it sets titles, writes to the clipboard, or asks for an answer.
_STRING = r"(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n]"
_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]"
_OBEYED = re.compile(
    rf"{_STRING}*(?:\x07|\x1b\\|\x9c)|{_SEQUENCE}*[ -/]*[@-~]|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
# What is longer than this without an end is none, and text.
_CUT_OFF = re.compile(
    rf"(?:{_STRING}{{0,4096}}\x1b?|{_SEQUENCE}{{0,256}}[ -/]{{0,256}}|\x1b[ -/]{{0,256}})\Z"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Screen:
    """A terminal that gets UTF-8 in pieces, however they are cut: text, tabs, the ends of lines,
    carriage returns, and colours (SGR). Other control characters and sequences are left out; bytes
    that are no UTF-8 are replaced."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, data: bytes) -> None:
        """Writes the next bytes, up to a sequence that may go on."""
        is_begun = self._rest or self._decoder.getstate()[0]
        if not is_begun and data.isascii() and _CONTROL.search(data) is None:
            self._out.write(data)  # as nearly all of a log is
            return
        text = self._rest + self._decoder.decode(data)
        cut = _CUT_OFF.search(text)
        self._rest = cut[0] if cut else ""
        self._show(text.removesuffix(self._rest))

    def end(self) -> None:
        """Writes what is left of the text, as nothing more is coming."""
        self._show(self._rest + self._decoder.decode(b"", final=True))
        self._rest = ""

    def _show(self, text: str) -> None:
        shown = _OBEYED.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)
        self._out.write(shown.encode())
