"""A pod's sandbox and its container, a process in its own namespaces; and the status that the node
reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.events import now
from fairway_simulator.kubernetes.kubelet.host import NetworkFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fairway_simulator.kubernetes.kubelet.host import Network


_SHIM = Path(__file__).with_name("shim.py")
_HELD = 'hostname "$1" && echo ready && exec cat'


@cache
def is_root() -> bool:
    """Returns True if root creates the namespaces directly, without a user namespace."""
    return os.geteuid() == 0


def missing() -> str:
    """Returns a hint at what this machine lacks for pods, or ""."""
    try:
        tried = subprocess.run([*_alone(), "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return "no unshare (Debian: util-linux)"
    if tried.returncode:
        return "no right to make namespaces: run it as root, or where a user may"
    return ""


def _alone() -> list[str]:
    own = [] if is_root() else ["--user", "--map-root-user", "--uts"]
    return ["unshare", *own, "--mount", "--pid"]


class Sandbox:
    """Namespaces shared by the containers of a pod: host name, IPC and network."""

    def __init__(self, hostname: str, network: Network) -> None:
        self._network = network
        self.address = network.address()
        self.holder: subprocess.Popen[bytes] | None = None
        if not is_root():
            return
        spaces = ["--uts", "--ipc", *(["--net"] if network.private else [])]
        words = ["unshare", *spaces, "sh", "-c", _HELD, "sh", hostname]
        self.holder = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.holder.stdout
        self.holder.stdout.readline()
        if network.private:
            try:
                network.attach(self.holder.pid, self.address)
            except NetworkFailed:
                self.close()
                raise

    def words(self) -> list[str]:
        """Returns the command prefix that starts a container in this sandbox."""
        enter: list[str] = []
        if self.holder is not None:
            enter = ["nsenter", "-t", str(self.holder.pid), "--net", "--uts", "--ipc", "--"]
        return [*enter, *_alone()]

    def close(self) -> None:
        if self.holder is not None:
            self.holder.communicate()
        self._network.give_back(self.address)


@dataclass(frozen=True)
class Order:
    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    root: Path
    log: Path
    mounts: Sequence[tuple[str, str, str]]
    user: int | None = None
    group: int = 0
    hostname: str = ""
    """The container's host name, unless the sandbox sets it."""


@dataclass
class Container:
    """A started container; another thread calls `ended`."""

    order: Order
    pid: int = 0
    """The pid on this machine of the container's process 1."""
    exit_code: int | None = None
    error: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def start(self, sandbox: Sandbox, ended: Callable[[], None]) -> None:
        """Starts the container, and returns when its program runs or has failed (`error`)."""
        order = self.order
        order.root.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [*sandbox.words(), sys.executable, "-I", "-S", str(_SHIM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._tell(
            {
                "argv": list(order.argv),
                "env": dict(order.environment),
                "cwd": order.folder,
                "root": str(order.root),
                "log": str(order.log),
                "mounts": [list(each) for each in order.mounts],
                "user": order.user,
                "group": order.group,
                "hostname": order.hostname,
            }
        )
        answer = self._heard()
        self.pid = answer.get("pid", 0)
        self.error = answer.get("error", "" if self.pid else "it was not started")
        if self.error:
            self._close()
            return
        threading.Thread(target=self._attend, args=(ended,), daemon=True).start()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the container's process 1, if it still runs."""
        assert self._process
        assert self._process.stdin
        with self._lock:
            try:
                self._process.stdin.write(b"%d\n" % number)
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                return

    def enter(self) -> list[str]:
        """Returns the command prefix that runs a command in the container."""
        own = [] if is_root() else ["--user", "--preserve-credentials"]
        spaces = ["--mount", "--pid", "--uts", *(["--net", "--ipc"] if is_root() else [])]
        return ["nsenter", "-t", str(self.pid), *own, *spaces, "--root", "--wd", "--"]

    def _attend(self, ended: Callable[[], None]) -> None:
        answer = self._heard()
        # Without a report from the shim, the container was killed with it.
        self.exit_code = int(answer.get("exit", 128 + signal.SIGKILL))
        self._close()
        ended()

    def _tell(self, message: object) -> None:
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def _heard(self) -> dict[str, Any]:
        assert self._process
        assert self._process.stdout
        line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {}
        return found

    def _close(self) -> None:
        assert self._process
        with self._lock:
            for stream in (self._process.stdin, self._process.stdout):
                assert stream
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
        self._process.wait()


@dataclass
class ContainerState:
    name: str
    image: str
    state: str = "waiting"
    details: dict[str, Any] = field(default_factory=lambda: {"reason": "PodInitializing"})
    last: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def exit_code(self) -> int | None:
        return self.details["exitCode"] if self.state == "terminated" else None

    def wait(self, reason: str, message: str = "") -> None:
        if self.state == "terminated":
            self.last = {"terminated": self.details}
        self.state = "waiting"
        self.details = {"reason": reason, **({"message": message} if message else {})}

    def run(self) -> None:
        if self.state == "terminated":
            self.last = {"terminated": self.details}
        self.state, self.details = "running", {"startedAt": now()}

    def end(self, code: int, reason: str = "", message: str = "") -> None:
        started = self.details.get("startedAt", now())
        reason = reason or ("Completed" if code == 0 else "Error")
        self.state = "terminated"
        self.details = {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": now(),
            **({"message": message} if message else {}),
        }

    def wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": f"stand-in://{self.image}",
            "containerID": f"stand-in://{self.name}-{self.restarts}",
            "ready": self.is_running,
            "started": self.is_running,
            "restartCount": self.restarts,
            "state": {self.state: self.details},
            "lastState": self.last,
        }


def status_of(
    pod: Mapping[str, Any],
    phase: str,
    main: ContainerState,
    address: str,
) -> dict[str, Any]:
    ready = main.is_running
    why = "PodCompleted" if phase in ("Succeeded", "Failed") else "ContainersNotReady"
    conditions = [
        _condition("Initialized", True, ""),
        _condition("Ready", ready, why),
        _condition("ContainersReady", ready, why),
    ]
    found: dict[str, Any] = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [main.wire()],
        "startTime": (pod.get("status") or {}).get("startTime") or now(),
    }
    if address:
        found |= {"podIP": address, "podIPs": [{"ip": address}]}
    return found


def _condition(kind: str, holds: bool, otherwise: str) -> dict[str, Any]:
    if holds:
        return {"type": kind, "status": "True", "reason": None}
    return {"type": kind, "status": "False", "reason": otherwise}
