"""How programs wait: for a signal, and until a moment however far away.

Standard library only.
"""

from __future__ import annotations

import selectors
import signal
import socket
import time

# The kernel takes 24.8 days at most (epoll_wait: milliseconds in an int). Callers look again
# after every wait, so waking up early costs nothing.
_LONGEST = 3600.0


# What a task's programs are told by.
TASK_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)


def signal_wakeups(*numbers: signal.Signals) -> tuple[socket.socket, socket.socket]:
    """What has something to read once one of these signals has come: the number of each; and what
    threads write to, to the same end.

    One that gets a handler of its own afterwards is read too.
    """
    wakeup, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.dup().detach(), warn_on_full_buffer=False)
    outlive(*numbers)
    return wakeup, writer


def outlive(*numbers: signal.Signals) -> None:
    """Lets these signals do nothing here. They are not ignored, which the programs that are started
    would inherit."""
    for number in numbers:
        signal.signal(number, lambda *_: None)


def wait(wakeup: socket.socket, deadline: float | None) -> None:
    """Returns when `wakeup` has something to read, which is taken from it, when the `deadline`
    on the monotonic clock is over, or after an hour: the caller looks what it was."""
    left = _LONGEST if deadline is None else deadline - time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        if selector.select(max(0.0, min(left, _LONGEST))):
            wakeup.recv(4096)
