"""Addresses of pods: each in a network of its own behind one switch, or on loopback.

The switch is a bridge in a namespace that a process holds. When the kubelet dies its input ends,
so does the process, and with it the whole network: nothing of it is left on this machine.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
from collections import deque
from typing import Protocol

_TRIES = 256
_HELD = "ip link add switch type bridge && ip link set switch up && echo ready && exec cat"


class NetworkFailed(Exception):
    """This machine does not let a network be made."""


class Network(Protocol):
    """Network from which pods get their addresses."""

    gateway: str
    """The address at which pods reach this machine."""
    private: bool
    """True if each pod has a network of its own."""

    def address(self) -> str:
        """One that no pod has, until it is given back."""

    def give_back(self, address: str) -> None:
        """A pod has ended, and its address is another's in time."""

    def attach(self, pid: int, address: str) -> None:
        """Gives the network namespace of a process its address."""

    def close(self) -> None:
        """Takes it all away."""


class Addresses:
    """The addresses `prefix`.2 to .254; one that was given back comes round last."""

    def __init__(self, prefix: str) -> None:
        self._free = deque(f"{prefix}.{host}" for host in range(2, 255))
        self._lock = threading.Lock()

    def take(self) -> str:
        """One that nobody has."""
        with self._lock:
            if not self._free:
                raise NetworkFailed("no address is free")
            return self._free.popleft()

    def give_back(self, address: str) -> None:
        """Nobody has it any more."""
        with self._lock:
            self._free.append(address)


class Loopback:
    """All pods share this machine's network; each has a loopback address of its own."""

    private = False
    gateway = "127.0.0.1"

    def __init__(self) -> None:
        prefix = f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
        self._addresses = Addresses(prefix)

    def address(self) -> str:
        """One that no pod has."""
        return self._addresses.take()

    def give_back(self, address: str) -> None:
        """It may be another's."""
        self._addresses.give_back(address)

    def attach(self, pid: int, address: str) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class Switch:
    """A network 10.244.N.0/24, in which this machine is .1."""

    private = True

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", _HELD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout
        if not self._holder.stdout.readline():
            said = self._holder.communicate()[1].decode(errors="replace")
            raise NetworkFailed(said.strip())
        self._number = self._link()
        self.gateway = f"10.244.{self._number}.1"
        self._addresses = Addresses(f"10.244.{self._number}")

    def address(self) -> str:
        """One that no pod has."""
        return self._addresses.take()

    def give_back(self, address: str) -> None:
        """It may be another's."""
        self._addresses.give_back(address)

    def attach(self, pid: int, address: str) -> None:
        """Plugs the namespace of a process into the switch."""
        port = f"p{pid}"
        holder = str(self._holder.pid)
        _ip("link", "add", "eth0", "netns", str(pid), "type", "veth", "peer", port, "netns", holder)
        _ip("link", "set", port, "master", "switch", "up", inside=self._holder.pid)
        _ip("addr", "add", f"{address}/24", "dev", "eth0", inside=pid)
        _ip("link", "set", "lo", "up", inside=pid)
        _ip("link", "set", "eth0", "up", inside=pid)
        _ip("route", "add", "default", "via", self.gateway, inside=pid)

    def close(self) -> None:
        """The holder ends, and with it the switch and its cables."""
        self._holder.communicate()

    def _link(self) -> int:
        """Plugs this machine in, under the first number that is free."""
        holder = str(self._holder.pid)
        start = os.getpid()
        for number in ((start + step) % 256 for step in range(_TRIES)):
            name = f"fwk{number}"
            made = _try("link", "add", name, "type", "veth", "peer", "uplink", "netns", holder)
            if made:
                _ip("addr", "add", f"10.244.{number}.1/24", "dev", name)
                _ip("link", "set", name, "up")
                _ip("link", "set", "uplink", "master", "switch", "up", inside=self._holder.pid)
                return number
        self.close()
        raise NetworkFailed("no number of a network is free")


def network(*, private: bool) -> Network:
    """The network for pods; loopback where this machine gives no right to make another."""
    if private and os.geteuid() == 0:
        return Switch()
    return Loopback()


def _try(*words: str) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, check=False)
    return done.returncode == 0


def _ip(*words: str, inside: int = 0) -> None:
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    done = subprocess.run([*enter, "ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"ip {' '.join(words)}: {done.stderr.strip()}")
