"""Sockets in network namespaces, and relays from one network to another. Needs root.

Source: setns(2) and unshare(2): a thread may be in another network than its process.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Made = TypeVar("Made")

_CLONE_NEWNET = 0x40000000
_BUFFER = 65536


def new_network() -> int:
    """Creates an empty network namespace; returns a descriptor that keeps it alive.

    Raises OSError if this process may not.
    """

    def make() -> int:
        _check(_libc().unshare(_CLONE_NEWNET), "unshare")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return _in_a_thread(make)


def within(namespace: int, make: Callable[[], Made]) -> Made:
    """Calls `make` in the network of that descriptor. Its socket or process stays in that network
    wherever it is used."""

    def enter() -> Made:
        _check(_libc().setns(namespace, _CLONE_NEWNET), "setns")
        return make()

    return _in_a_thread(enter)


def link(namespace: int | None, *lines: str) -> None:
    """Runs these lines as arguments of `ip` in a network, or in this process's own. Raises
    CalledProcessError if one fails."""
    run = partial(
        subprocess.run,
        ["ip", "-batch", "-"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    run() if namespace is None else within(namespace, run)


class Relay:
    """Relays each connection of a listening socket to the one that `connect` opens."""

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self.port = int(listener.getsockname()[1])
        self.used = 0
        """The number of connections so far."""
        self._listener, self._connect = listener, connect
        self._threads: list[threading.Thread] = []
        self._accepting = self._start(self._accept)

    def close(self) -> None:
        """Accepts no more connections; open ones end with either side."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()

    def join(self, timeout: float) -> bool:
        """Waits for the end of all connections; returns False after the timeout."""
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _accept(self) -> None:
        with suppress(OSError), self._listener:
            while True:
                client, _ = self._listener.accept()
                self.used += 1
                self._threads = [each for each in self._threads if each.is_alive()]
                self._threads.append(self._start(self._carry, client))

    def _carry(self, client: socket.socket) -> None:
        # If the service refuses, the client's connection ends, as behind a load balancer.
        with client, suppress(OSError), self._connect() as service:
            back = self._start(_copy, service, client)
            _copy(client, service)
            back.join()

    @staticmethod
    def _start(function: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        return thread


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BUFFER):
            sink.sendall(data)
    # One direction of a connection may end before the other.
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _in_a_thread(make: Callable[[], Made]) -> Made:
    """Runs it in a thread that ends with it: nothing else may happen to run in that network."""
    made: list[Made] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]
