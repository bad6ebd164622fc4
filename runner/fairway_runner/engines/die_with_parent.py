"""Runs a program that ends when the process that started it does, even by SIGKILL.

    python die_with_parent.py PARENT_PROCESS PROGRAM [WORD…]

It asks the kernel for a signal at its parent's end and becomes the program. The standard library
alone, so that it starts at once.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


_PR_SET_PDEATHSIG = 1  # linux/prctl.h; it survives execve, see prctl(2)
_NOT_FOUND = 127


def die_with_parent(words: Sequence[str]) -> list[str]:
    """The command line that runs these words so; on macOS, which has no such signal, the same."""
    if sys.platform != "linux":
        return list(words)
    # -I and -S: no variable and no package of the user changes what it does, or slows it down.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    import ctypes

    parent, *words = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)  # it has ended before it could be asked
    # Python ignores these, and the program, with all that a shell starts, would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)  # noqa: S606 - it takes this one's place
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


if __name__ == "__main__":
    main()
