"""Addresses of pods: each in a network of its own behind one switch, or on loopback.

The switch is a bridge in a namespace that this process alone keeps: when the kubelet dies it goes,
and with it the whole network: nothing of it is left on this machine.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
from collections import deque

from fairway_simulator.sockets import link, new_network

_TRIES = 256


class NetworkFailed(Exception):
    """This machine does not let a network be made."""


class Network:
    """All pods share this machine's network; each has a loopback address of its own."""

    private = False
    """True if each pod has a network of its own."""
    gateway = "127.0.0.1"
    """The address at which pods reach this machine."""

    def __init__(self, prefix: str = "") -> None:
        prefix = prefix or f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
        # One that was given back comes round last.
        self._free = deque(f"{prefix}.{host}" for host in range(2, 255))
        self._lock = threading.Lock()

    def address(self) -> str:
        """One that no pod has, until it is given back."""
        with self._lock:
            if not self._free:
                raise NetworkFailed("no address is free")
            return self._free.popleft()

    def give_back(self, address: str) -> None:
        """A pod has ended, and its address is another's in time."""
        with self._lock:
            self._free.append(address)

    def attach(self, pid: int, address: str) -> None:
        """Gives the network namespace of a process its address."""

    def close(self) -> None:
        """Takes it all away."""


class Switch(Network):
    """A network 10.244.N.0/24, in which this machine is .1."""

    private = True

    def __init__(self) -> None:
        try:
            self._switch = new_network()
        except OSError as error:
            raise NetworkFailed(str(error)) from None
        _link(self._switch, "link add switch type bridge", "link set switch up")
        number = self._plug_in()
        self.gateway = f"10.244.{number}.1"
        super().__init__(f"10.244.{number}")

    def attach(self, pid: int, address: str) -> None:
        """Plugs the namespace of a process into the switch."""
        port = f"p{pid}"
        _link(
            self._switch,
            f"link add {port} type veth peer name eth0 netns {pid}",
            f"link set {port} master switch up",
        )
        own = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _link(
                own,
                f"addr add {address}/24 dev eth0",
                "link set lo up",
                "link set eth0 up",
                f"route add default via {self.gateway}",
            )
        finally:
            os.close(own)

    def close(self) -> None:
        """Lets the switch go, and with it its cables."""
        os.close(self._switch)

    def _plug_in(self) -> int:
        """Plugs this machine in, under the first number that is free."""
        switch = f"/proc/{os.getpid()}/fd/{self._switch}"
        for number in ((os.getpid() + step) % 256 for step in range(_TRIES)):
            name = f"fwk{number}"
            words = ["ip", "link", "add", name, "type", "veth", "peer", "uplink", "netns", switch]
            if subprocess.run(words, capture_output=True, check=False).returncode == 0:
                _link(None, f"addr add 10.244.{number}.1/24 dev {name}", f"link set {name} up")
                _link(self._switch, "link set uplink master switch up")
                return number
        self.close()
        raise NetworkFailed("no number of a network is free")


def network(*, private: bool) -> Network:
    """The network for pods; loopback where this machine gives no right to make another."""
    return Switch() if private and os.geteuid() == 0 else Network()


def _link(namespace: int | None, *lines: str) -> None:
    try:
        link(namespace, *lines)
    except subprocess.CalledProcessError as error:
        raise NetworkFailed(f"ip {'; '.join(lines)}: {error.stderr.strip()}") from None
