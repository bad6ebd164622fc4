"""One pod on its node, in its own thread: from its volumes to its end."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.patches import STRATEGIC
from fairway_simulator.kubernetes.kubelet.containers import (
    Container,
    ContainerState,
    Order,
    Sandbox,
    is_root,
    status_of,
)
from fairway_simulator.kubernetes.kubelet.host import NetworkFailed
from fairway_simulator.kubernetes.kubelet.volumes import (
    NotReady,
    Volumes,
    common_mounts,
    expanded,
    of_image,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fairway_simulator.kubernetes.kubelet.host import Host

_PAUSE = 1.0  # seconds between two attempts, while something is missing
_LONGEST_PAUSE = 300.0
_LIMITS = 0.5  # seconds between two checks of volume sizes; 10 in the real kubelet
_EVICTION = 1.0  # grace period of an evicted pod in seconds


class PodRunner(threading.Thread):
    """The thread of one pod; `host` has the resources of its node."""

    def __init__(self, pod: dict[str, Any], host: Host) -> None:
        super().__init__(name=f"pod-{pod['metadata']['name']}", daemon=True)
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.folder = host.folder / "pods" / self.uid
        self._host = host
        self._changed = threading.Condition()
        self._grace: float | None = None
        """The grace period in seconds once the pod is ended, None before."""
        self._lost = False
        self._evicted = ""
        """The reason of the pod's eviction, "" before."""
        self._sandbox: Sandbox | None = None
        self._container: Container | None = None
        self._reason = ""
        [self._spec] = pod["spec"]["containers"]
        self._state = ContainerState(self._spec["name"], self._spec["image"])
        self._written: dict[str, Any] = {}

    # Called by other threads.

    def end(self, grace: float) -> None:
        """Ends the pod: SIGTERM, then SIGKILL after the shortest grace period of all calls."""
        with self._changed:
            if self._grace is None or grace < self._grace:
                self._grace = grace
                self._changed.notify_all()

    def lose(self) -> None:
        """Kills the pod at once, and reports nothing more about it."""
        with self._changed:
            self._lost = True
            self._grace = 0
            self._changed.notify_all()

    def kill(self, reason: str) -> None:
        """Kills the pod's container, with this reason for its end (`OOMKilled`)."""
        self._reason = reason
        assert self._container
        self._container.signal(signal.SIGKILL)

    @property
    def container(self) -> Container | None:
        found = self._container
        return found if found and found.pid and found.exit_code is None else None

    @property
    def log(self) -> Path:
        folder = self._host.folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.uid}-{self._state.restarts}"

    # Lifecycle.

    def run(self) -> None:
        phase, ended = "Pending", threading.Event()
        try:
            if self._prepare():
                threading.Thread(target=self._volumes.keep, args=(ended,), daemon=True).start()
                threading.Thread(target=self._hold_to_limits, args=(ended,), daemon=True).start()
                self._tell("Pending")
                if self._start():
                    self._tell("Running")
                    self._attend()
            phase = self._end()
        finally:
            ended.set()
            if self._container:
                self._container.signal(signal.SIGKILL)
            if self._sandbox:
                self._sandbox.close()
            self._host.devices.give_back(self.uid)
        if not self._lost:
            self._tell("Failed" if self._evicted else phase)
            if self._grace is not None and not self._evicted:
                # No process of the pod is left.
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                self._host.send("DELETE", self._path(), body)
                shutil.rmtree(self.folder, ignore_errors=True)

    def _hold_to_limits(self, ended: threading.Event) -> None:
        """Evicts the pod if a volume exceeds its limit. Source: Kubernetes, "Local ephemeral
        storage"; in pkg/kubelet/eviction such a pod gets no condition DisruptionTarget."""
        while not ended.wait(_LIMITS):
            if self._grace is None and (said := self._volumes.beyond_limits()):
                self._evicted = said
                self._host.event(self.pod, "Evicted", said, bad=True)
                self.end(_EVICTION)

    def _prepare(self) -> bool:
        """Waits for volumes and image, and gets an address. Returns False if the pod ends first."""
        host, node = self._host, self.pod["spec"]["nodeName"]
        self._volumes = Volumes(self.pod, self.folder, host.client, host.exports, host.disks(node))
        self._state.details = {"reason": "ContainerCreating"}
        self._tell("Pending")
        while True:
            try:
                _require_plain(self.pod["spec"])
                self._volumes.prepare()
                break
            except NotReady as why:
                self._host.event(self.pod, "FailedMount", str(why), bad=True)
                if self._wait(_PAUSE):
                    return False
        if not self._host.has_image(self._state.image) and not self._pull():
            return False
        hostname = self.pod["spec"].get("hostname") or self.pod["metadata"]["name"]
        self._hostname = hostname[:63].rstrip("-.")
        while self._sandbox is None:
            try:
                self._sandbox = Sandbox(self._hostname, self._host.network)
            except NetworkFailed as why:
                message = f"Failed to create pod sandbox: {why}"
                self._host.event(self.pod, "FailedCreatePodSandBox", message, bad=True)
                if self._wait(_PAUSE):
                    return False
        address = self._sandbox.address
        own = {"podIP": address, "podIPs": [{"ip": address}]} if address else {}
        known = {**self.pod.get("status", {}), "hostIP": self._host.address, **own}
        self.pod = {**self.pod, "status": known}
        self._mounts = common_mounts(self.folder, self._sandbox.address, self._hostname)
        return True

    def _pull(self) -> bool:
        """Reports failed pulls of an unknown image until the pod ends."""
        state, image = self._state, self._state.image
        why = f'failed to pull and unpack image "{image}": failed to resolve reference '
        why += f'"{image}": not found'
        pause = _PAUSE
        while True:
            state.wait("ErrImagePull", why)
            self._tell("Pending")
            self._host.event(self.pod, "Failed", f'Failed to pull image "{image}": {why}', bad=True)
            if self._wait(_PAUSE):
                return False
            state.wait("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}')
            self._tell("Pending")
            if self._wait(pause):
                return False
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _start(self) -> bool:
        """Starts the container. Returns False if the pod is ended before."""
        state = self._state
        while True:
            try:
                order = self._order()
                break
            except (NotReady, KeyError) as why:
                state.wait("CreateContainerConfigError", str(why).strip("'\""))
                self._tell("Pending")
                if self._wait(_PAUSE):
                    return False
        container = self._container = Container(order)
        assert self._sandbox
        state.run()
        container.start(self._sandbox, lambda: self._ended(container))
        if container.error:
            program = f"exec: {container.error}"
            message = "failed to create containerd task: failed to create shim task: OCI runtime "
            message += f"create failed: unable to start container process: {program}: unknown"
            state.end(128, "StartError", message)
            self._host.event(self.pod, "Failed", f"Error: {message}", bad=True)
        else:
            self._host.event(self.pod, "Started", f"Started container {state.name}")
        return True

    def _ended(self, container: Container) -> None:
        assert container.exit_code is not None
        with self._changed:
            self._state.end(container.exit_code, self._reason)
            self._changed.notify_all()

    def _attend(self) -> None:
        """Waits until the container has ended or the pod is ended. With the restart policy `Always`
        it restarts the container, at once and then after growing pauses."""
        pause, name = 0.0, self.pod["metadata"]["name"]
        while True:
            self._await(lambda: not self._state.is_running or self._grace is not None)
            if self._grace is not None or self.pod["spec"]["restartPolicy"] == "Never":
                return
            if pause:
                message = f"back-off {pause:.0f}s restarting failed container={self._state.name} "
                self._state.wait("CrashLoopBackOff", f"{message}pod={name}")
                self._tell("Running")
                if self._wait(pause):
                    return
            pause = min(max(2 * pause, self._host.restart_pause), _LONGEST_PAUSE)
            self._state.restarts += 1
            if not self._start():
                return
            self._tell("Running")

    def _end(self) -> str:
        """Ends the container if it still runs. Returns the pod's last phase."""
        state = self._state
        if state.is_running:
            assert self._container
            assert self._grace is not None
            if not self._lost:
                self._host.event(self.pod, "Killing", f"Stopping container {state.name}")
            if self._grace:
                self._container.signal(signal.SIGTERM)
                self._await_grace()
            self._container.signal(signal.SIGKILL)
            self._await(lambda: not state.is_running)
        if state.state == "waiting":
            state.end(137, "ContainerStatusUnknown", "The container could not be located")
        return "Succeeded" if state.exit_code == 0 else "Failed"

    def _await_grace(self) -> None:
        """Waits until the container has ended or the grace period, which may shrink, is over."""
        start = time.monotonic()
        with self._changed:
            while self._state.is_running:
                assert self._grace is not None
                left = start + self._grace - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _await(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(is_so)

    def _order(self) -> Order:
        spec = self._spec
        environment = variables(
            self.pod,
            spec,
            {**of_image(), "HOSTNAME": self._hostname, **self._host.environment},
        )
        numbers = self._host.devices.lend(self.pod["spec"]["nodeName"], self.uid, spec)
        if numbers is None:
            raise NotReady("devices that it was given are still in use")
        words = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        security = {**(self.pod["spec"].get("securityContext") or {})}
        security |= spec.get("securityContext") or {}
        return Order(
            argv=[expanded(word, environment) for word in words or ["sleep", "infinity"]],
            environment=environment,
            folder=spec.get("workingDir") or "/",
            root=self.folder / spec["name"],
            log=self.log,
            mounts=[
                *self._mounts,
                *self._volumes.mounts(spec, environment),
                *self._host.devices.mounts(numbers),
            ],
            user=security.get("runAsUser"),
            group=security.get("runAsGroup") or 0,
            hostname="" if is_root() else self._hostname,
        )

    def _wait(self, seconds: float) -> bool:
        """Waits some seconds. Returns True as soon as the pod is ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._grace is not None, seconds)

    def _tell(self, phase: str) -> None:
        address = self._sandbox.address if self._sandbox else ""
        found = status_of(self.pod, phase, self._state, address)
        found |= {"hostIP": self._host.address}
        if self._evicted:
            found |= {"reason": "Evicted", "message": self._evicted}
        if self._lost or found == self._written:
            return
        self._written = found
        patch = {"metadata": {"uid": self.uid}, "status": found}
        self._host.send("PATCH", f"{self._path()}/status", patch, STRATEGIC)
        self.pod["status"] = {**self.pod.get("status", {}), "startTime": found["startTime"]}

    def _path(self) -> str:
        metadata = self.pod["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _require_plain(spec: Mapping[str, Any]) -> None:
    """Raises NotReady for a pod with init containers, or with rights on its node, this machine."""
    if spec.get("initContainers"):
        raise NotReady("initContainers: the stand-in's nodes run none")
    rights = [each for each in ("hostPID", "hostNetwork", "hostIPC") if spec.get(each)]
    if (spec["containers"][0].get("securityContext") or {}).get("privileged"):
        rights.append("privileged")
    if rights:
        raise NotReady(f"{rights[0]}: the stand-in's nodes give no pod rights on this machine")
