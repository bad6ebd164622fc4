"""Nodes as pods need them: devices, images, disks and a client of the API server."""

from __future__ import annotations

import fnmatch
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.resources import PODS
from fairway_simulator.kubernetes.client import Refused
from fairway_simulator.kubernetes.events import event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.kubernetes.client import Client
    from fairway_simulator.kubernetes.kubelet.network import Network


GPU = "nvidia.com/gpu"


class Devices:
    """Who has which; `count` says how many a node has, and `folder` holds the files."""

    def __init__(self, folder: Path, count: Callable[[str], int]) -> None:
        self._folder = folder
        self._count = count
        self._lock = threading.Lock()
        self._lent: dict[str, dict[int, str]] = {}

    def lend(self, node: str, pod: str, container: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The first that are free of as many as a container asks for, and the same when it starts
        again; None where others, which are about to end, still have some of these."""
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
        """A pod has none any more."""
        with self._lock:
            for lent in self._lent.values():
                for number in [each for each, has in lent.items() if has.startswith(f"{pod}/")]:
                    del lent[number]

    def mounts(self, numbers: tuple[int, ...]) -> list[tuple[str, str, str]]:
        """The mounts of the container that has them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        found = []
        for number in numbers:
            file = self._folder / f"nvidia{number}"
            file.touch()
            found.append(("bind", str(file), f"/dev/{file.name}"))
        return found


PAUSE = 0.5  # seconds before a request that failed is tried again


@dataclass
class Host:
    """Node as its pods need it: client of the API server, network, images and devices."""

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
    """Folder that stands for the local disks of a node, by its name."""

    def has_image(self, name: str) -> bool:
        """True if containers can be made of an image: its name matches one of those known."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.images)

    def send(self, method: str, path: str, body: Any, form: str = "application/json") -> None:
        """A request that must arrive; what is gone or another by now does not matter."""
        while not self.stopped.is_set():
            try:
                self.client.send(method, path, body, form)
            except Refused as refused:
                if refused.code in (404, 409, 422):
                    return
                self.stopped.wait(PAUSE)
            else:
                return

    def event(self, pod: dict[str, Any], reason: str, message: str, *, bad: bool = False) -> None:
        """Says something about a pod; it is no harm if that is lost."""
        new = event(PODS, pod, "kubelet", reason, message, bad=bad)
        try:
            self.client.send(
                "POST", f"/api/v1/namespaces/{new['metadata']['namespace']}/events", new
            )
        except Refused:
            return
