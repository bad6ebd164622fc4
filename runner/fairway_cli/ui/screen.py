"""Filter for output of other machines on a terminal: colours stay, other control sequences do not.

Sequences are those of ECMA-48, with BEL as an end of control strings, as in xterm.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

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
