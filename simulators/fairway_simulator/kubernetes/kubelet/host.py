"""What a pod needs of the node that it runs on."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.resources import PODS
from fairway_simulator.kubernetes.client import Refused
from fairway_simulator.kubernetes.events import event

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.kubernetes.client import Client
    from fairway_simulator.kubernetes.kubelet.devices import Devices
    from fairway_simulator.kubernetes.kubelet.network import Network

PAUSE = 0.5  # seconds before a request that failed is tried again


@dataclass
class Host:
    """What a pod needs of the node that it runs on."""

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
    """What stands for the local disks of a node, by its name."""

    def has_image(self, name: str) -> bool:
        """Whether containers can be made of an image: its name is one of those known."""
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
