"""How a supervisor waits: for a signal, and until a moment however far away.

Standard library only.
"""

from __future__ import annotations

import selectors
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

# The kernel takes 24.8 days at most (epoll_wait: milliseconds in an int). Callers look again
# after every wait, so waking up early costs nothing.
_LONGEST = 3600.0


def wait(wakeup: socket.socket, deadline: float | None) -> None:
    """Returns when `wakeup` has something to read, which is taken from it, when the `deadline`
    on the monotonic clock is over, or after an hour: the caller looks what it was."""
    left = _LONGEST if deadline is None else deadline - time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        if selector.select(max(0.0, min(left, _LONGEST))):
            wakeup.recv(4096)
