"""The status of a pod as its node writes it: phase, conditions, and one entry for a container."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.events import now

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class ContainerState:
    """State of one container: `waiting`, `running` or `terminated`."""

    name: str
    image: str
    state: str = "waiting"
    details: dict[str, Any] = field(default_factory=lambda: {"reason": "PodInitializing"})
    last: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0

    @property
    def is_running(self) -> bool:
        """True while the container runs."""
        return self.state == "running"

    @property
    def exit_code(self) -> int | None:
        """Exit code of the container; None while it has not ended."""
        return self.details["exitCode"] if self.state == "terminated" else None

    def wait(self, reason: str, message: str = "") -> None:
        """It does not run yet, or not again."""
        if self.state == "terminated":
            self.last = {"terminated": self.details}
        self.state = "waiting"
        self.details = {"reason": reason, **({"message": message} if message else {})}

    def run(self) -> None:
        """It runs from now on."""
        if self.state == "terminated":
            self.last = {"terminated": self.details}
        self.state, self.details = "running", {"startedAt": now()}

    def end(self, code: int, reason: str = "", message: str = "") -> None:
        """It has ended."""
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
        """As a pod's status has it."""
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


def wire(
    pod: Mapping[str, Any],
    phase: str,
    main: ContainerState,
    address: str,
) -> dict[str, Any]:
    """The whole status."""
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
