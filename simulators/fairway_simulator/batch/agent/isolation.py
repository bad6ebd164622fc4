"""Networks and processes of a pool's nodes, each in a namespace of its own.

A node has its own address and ports, and a link to all other nodes. Beyond that it reaches only
what a node on Azure would: the account and its storage, at the addresses that they have on this
machine. Only the ports that a pool maps for login lead to it from outside. It neither sees nor
signals other nodes' processes, and its own end with it. If the simulator is not root, or this
machine allows no namespaces, nodes share its network or its processes. Source: pid_namespaces(7).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from functools import cache, partial
from typing import TYPE_CHECKING

from fairway_simulator.sockets import Relay, link, new_network, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.agent.supervisor_client import Process
    from fairway_simulator.batch.model.pool import Node


_SWITCH = "switch"
_LOOPBACK = "127.0.0.1"
_SPACE = ("unshare", "--pid", "--fork")
# Process 1 of a node: it reads a pipe from the simulator, and ends with it.
_FIRST = "echo && exec cat"


@cache
def can_have_networks() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        namespace = new_network()
    except OSError:
        return False
    try:
        link(namespace, f"link add {_SWITCH} type bridge", "link add one type veth peer name other")
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        os.close(namespace)
    return True


def address_of(number: int, *, shared: bool) -> str:
    """Returns the address of a node by its number, counted from 0: a loopback address if nodes
    share this machine's network."""
    high, low = divmod(number, 254)
    return f"{'127.0' if shared else '10.77'}.{high + 1}.{low + 1}"


class Network:
    """The network of the nodes; with `shared`, this machine's."""

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared or not can_have_networks()
        self._services: list[int] = []
        self._namespaces: dict[str, int] = {}
        self._relays: dict[str, list[Relay]] = {}
        self._switch: int | None = None
        self._made = 0
        self._lock = threading.Lock()

    def lead_to(self, port: int) -> None:
        """Forwards a loopback port of every node to the same port of this machine."""
        with self._lock:
            self._services.append(port)
            for name, namespace in self._namespaces.items():
                self._relays[name].append(_service(namespace, port))

    def start(self, node: Node, program: Callable[[], Process]) -> Process:
        return program() if self.shared else within(self._namespace(node), program)

    def door(self, node: Node, port: int) -> Relay:
        """Forwards a free port of this machine to a port of the node."""
        namespace = self._namespace(node)
        listener = socket.create_server((_LOOPBACK, 0))
        reach = partial(socket.create_connection, (node.address, port))
        relay = Relay(listener, lambda: within(namespace, reach))
        with self._lock:
            self._relays[node.id].append(relay)
        return relay

    def forget(self, node: Node) -> None:
        with self._lock:
            relays = self._relays.pop(node.id, [])
            namespace = self._namespaces.pop(node.id, None)
        for relay in relays:
            relay.close()
        if namespace is not None:
            os.close(namespace)

    def close(self) -> None:
        with self._lock:
            relays = [each for some in self._relays.values() for each in some]
            namespaces = list(self._namespaces.values())
            self._relays.clear()
            self._namespaces.clear()
        for relay in relays:
            relay.close()
        for namespace in namespaces:
            os.close(namespace)
        if self._switch is not None:
            os.close(self._switch)
            self._switch = None

    def _namespace(self, node: Node) -> int:
        """Returns the node's namespace, created on first use."""
        with self._lock:
            if node.id not in self._namespaces:
                namespace = self._join(node)
                self._namespaces[node.id] = namespace
                self._relays[node.id] = [_service(namespace, port) for port in self._services]
            return self._namespaces[node.id]

    def _join(self, node: Node) -> int:
        if self._switch is None:
            self._switch = new_network()
            link(self._switch, f"link add {_SWITCH} type bridge", f"link set {_SWITCH} up")
        namespace = new_network()
        self._made += 1
        wire = f"node{self._made}"
        link(
            self._switch,
            f"link add {wire} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{namespace}",
            f"link set {wire} master {_SWITCH} up",
        )
        link(
            namespace,
            "link set lo up",
            f"addr add {node.address}/16 dev eth0",
            "link set eth0 up",
        )
        return namespace


def _service(namespace: int, port: int) -> Relay:
    listener = within(namespace, partial(socket.create_server, (_LOOPBACK, port)))
    return Relay(listener, partial(socket.create_connection, (_LOOPBACK, port)))


@cache
def can_have_processes() -> bool:
    if os.geteuid() != 0:
        return False
    words = [*_SPACE, "--mount", "--mount-proc", "true"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class ProcessSpaces:
    """The process namespaces of the nodes, each held by its process 1."""

    def __init__(self) -> None:
        self._first: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def words(self, node: Node) -> tuple[str, ...]:
        """Returns the command prefix that enters the node's process namespace; empty if all nodes
        share this machine's."""
        if not can_have_processes():
            return ()
        with self._lock:
            if node.id not in self._first:
                self._first[node.id] = _start()
            holder = self._first[node.id].pid
        return ("nsenter", f"--pid=/proc/{holder}/ns/pid_for_children", "--")

    def forget(self, node: Node) -> None:
        with self._lock:
            holder = self._first.pop(node.id, None)
        if holder is not None:
            holder.communicate()

    def close(self) -> None:
        with self._lock:
            holders = list(self._first.values())
            self._first.clear()
        for holder in holders:
            holder.communicate()


def _start() -> subprocess.Popen[bytes]:
    words = [*_SPACE, "sh", "-c", _FIRST]
    holder = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert holder.stdout
    holder.stdout.readline()
    return holder
