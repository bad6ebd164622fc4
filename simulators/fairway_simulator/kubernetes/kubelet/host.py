"""Resources of nodes for pods: networks, devices, images, disks and a client of the API server.

Each pod has its own network behind one switch, or is on loopback. The switch is a bridge in a
namespace that only this process holds: when the kubelet dies, the network disappears without a
trace on this machine.
"""

from __future__ import annotations

import fnmatch
import os
import secrets
import subprocess
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.resources import PODS
from fairway_simulator.kubernetes.client import ErrorResponse
from fairway_simulator.kubernetes.events import event
from fairway_simulator.sockets import link, new_network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.kubernetes.client import Client


GPU = "nvidia.com/gpu"


class Devices:
    """The assignment of devices; `count` returns a node's number, `folder` has their files."""

    def __init__(self, folder: Path, count: Callable[[str], int]) -> None:
        self._folder = folder
        self._count = count
        self._lock = threading.Lock()
        self._lent: dict[str, dict[int, str]] = {}

    def lend(self, node: str, pod: str, container: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Assigns the first free devices to a container; a restarted container keeps its own.
        Returns None if too few are free, because pods that are about to end still hold some."""
        limits: Mapping[str, str] = (container.get("resources") or {}).get("limits") or {}
        wanted = int(parse(limits.get(GPU, "0")))
        owner = f"{pod}/{container['name']}"
        with self._lock:
            lent = self._lent.setdefault(node, {})
            if own := tuple(number for number, has in lent.items() if has == owner):
                return own
            free = [number for number in range(self._count(node)) if number not in lent]
            if len(free) < wanted:
                return None
            lent.update(dict.fromkeys(free[:wanted], owner))
            return tuple(free[:wanted])

    def give_back(self, pod: str) -> None:
        with self._lock:
            for lent in self._lent.values():
                for number in [each for each, has in lent.items() if has.startswith(f"{pod}/")]:
                    del lent[number]

    def mounts(self, numbers: tuple[int, ...]) -> list[tuple[str, str, str]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        found = []
        for number in numbers:
            file = self._folder / f"nvidia{number}"
            file.touch()
            found.append(("bind", str(file), f"/dev/{file.name}"))
        return found


PAUSE = 0.5  # seconds before a failed request is retried


@dataclass
class Host:
    """A node's resources for its pods: client of the API server, network, images and devices."""

    client: Client
    folder: Path
    network: Network
    environment: Mapping[str, str]
    images: Sequence[str]
    address: str
    restart_pause: float
    stopped: threading.Event
    devices: Devices
    exports: Mapping[str, Path] = field(default_factory=dict)
    disks: Callable[[str], Path | None] = lambda _: None
    """Returns the folder that stands for the local disks of the node of this name, or None."""

    def has_image(self, name: str) -> bool:
        """Returns True if an image's name matches one of the known patterns."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.images)

    def send(self, method: str, path: str, body: Any, form: str = "application/json") -> None:
        """Sends a request until it succeeds; ignores an object that has gone or changed."""
        while not self.stopped.is_set():
            try:
                self.client.send(method, path, body, form)
            except ErrorResponse as refused:
                if refused.code in (404, 409, 422):
                    return
                self.stopped.wait(PAUSE)
            else:
                return

    def event(self, pod: dict[str, Any], reason: str, message: str, *, bad: bool = False) -> None:
        """Reports an event of a pod, without a retry."""
        new = event(PODS, pod, "kubelet", reason, message, bad=bad)
        try:
            self.client.send(
                "POST", f"/api/v1/namespaces/{new['metadata']['namespace']}/events", new
            )
        except ErrorResponse:
            return


_TRIES = 256


class NetworkFailed(Exception):
    """Error that this machine does not allow creating a network."""


class Network:
    """This machine's network, shared by all pods; each has its own loopback address."""

    private = False
    """True if each pod has its own network."""
    gateway = "127.0.0.1"
    """The address at which pods reach this machine."""

    def __init__(self, prefix: str = "") -> None:
        prefix = prefix or f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
        # Returned addresses are reused last.
        self._free = deque(f"{prefix}.{host}" for host in range(2, 255))
        self._lock = threading.Lock()

    def address(self) -> str:
        """Reserves a free address. Raises NetworkFailed if there is none."""
        with self._lock:
            if not self._free:
                raise NetworkFailed("no address is free")
            return self._free.popleft()

    def give_back(self, address: str) -> None:
        with self._lock:
            self._free.append(address)

    def attach(self, pid: int, address: str) -> None:
        """Gives the network namespace of a process its address."""

    def close(self) -> None:
        """Removes the network."""


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
        """Connects the namespace of a process to the switch."""
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
        os.close(self._switch)

    def _plug_in(self) -> int:
        """Connects this machine to the switch, and returns the first free network number."""
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
    """Returns a network for pods: the loopback one if this process may not create another."""
    return Switch() if private and os.geteuid() == 0 else Network()


def _link(namespace: int | None, *lines: str) -> None:
    try:
        link(namespace, *lines)
    except subprocess.CalledProcessError as error:
        raise NetworkFailed(f"ip {'; '.join(lines)}: {error.stderr.strip()}") from None
