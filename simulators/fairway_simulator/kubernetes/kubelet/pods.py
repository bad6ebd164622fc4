"""One pod on its node, in a thread of its own: from its volumes to its end."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.patches import STRATEGIC
from fairway_simulator.kubernetes.kubelet import status
from fairway_simulator.kubernetes.kubelet.containers import Container, Order, Sandbox, is_root
from fairway_simulator.kubernetes.kubelet.network import NetworkFailed
from fairway_simulator.kubernetes.kubelet.status import ContainerState
from fairway_simulator.kubernetes.kubelet.volumes import (
    NotReady,
    Volumes,
    common_mounts,
    expanded,
    of_image,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_simulator.kubernetes.kubelet.host import Host

_PAUSE = 1.0  # seconds between two tries at what is not there yet
_LONGEST_PAUSE = 300.0
_LIMITS = 0.5  # seconds between two looks at the sizes of volumes: the kubelet has 10
_EVICTION = 1.0  # seconds that a pod has which its node ends


class PodRunner(threading.Thread):
    """Runs one pod; `host` is what it needs of its node."""

    def __init__(self, pod: dict[str, Any], host: Host) -> None:
        super().__init__(name=f"pod-{pod['metadata']['name']}", daemon=True)
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.folder = host.folder / "pods" / self.uid
        self._host = host
        self._changed = threading.Condition()
        self._grace: float | None = None
        """Seconds that it has from when it is to end, None while it is not."""
        self._lost = False
        self._evicted = ""
        """Why its node has ended it, "" while it has not."""
        self._sandbox: Sandbox | None = None
        self._containers: dict[str, Container] = {}
        self._reason = ""
        spec = pod["spec"]
        self._main = [ContainerState(each["name"], each["image"]) for each in spec["containers"]]
        self._written: dict[str, Any] = {}

    # What others ask of it.

    def end(self, grace: float) -> None:
        """Lets it end: SIGTERM, and SIGKILL when the grace is over; a shorter one counts."""
        with self._changed:
            if self._grace is None or grace < self._grace:
                self._grace = grace
                self._changed.notify_all()

    def lose(self) -> None:
        """Kills it at once, and says nothing of it to anybody."""
        with self._changed:
            self._lost = True
            self._grace = 0
            self._changed.notify_all()

    def kill(self, container: str, reason: str) -> None:
        """Kills a container, which then ended for this reason (`OOMKilled`)."""
        self._reason = reason
        self._containers[container or self._main[0].name].signal(signal.SIGKILL)

    def container(self, name: str) -> Container | None:
        """A container that runs."""
        found = self._containers.get(name)
        return found if found and found.pid and found.exit_code is None else None

    def log(self, name: str) -> Path:
        """Path of a container's log since its last restart."""
        return self._log(name, next(each.restarts for each in self._main if each.name == name))

    # Its life.

    def run(self) -> None:
        """From volumes to the end."""
        phase, ended = "Pending", threading.Event()
        try:
            if self._prepare():
                threading.Thread(target=self._volumes.keep, args=(ended,), daemon=True).start()
                threading.Thread(target=self._hold_to_limits, args=(ended,), daemon=True).start()
                self._tell("Pending")
                if self._start_all():
                    self._tell("Running")
                    self._attend()
            phase = self._end()
        finally:
            ended.set()
            for each in self._containers.values():
                each.signal(signal.SIGKILL)
            if self._sandbox:
                self._sandbox.close()
            self._host.devices.give_back(self.uid)
        if not self._lost:
            self._tell("Failed" if self._evicted else phase)
            if self._grace is not None and not self._evicted:
                # Nothing of it is left.
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                self._host.send("DELETE", self._path(), body)
                shutil.rmtree(self.folder, ignore_errors=True)

    def _hold_to_limits(self, ended: threading.Event) -> None:
        """Ends the pod where a volume has more than its limit. Source: Kubernetes, "Local ephemeral
        storage"; in pkg/kubelet/eviction such a pod has no condition DisruptionTarget."""
        while not ended.wait(_LIMITS):
            if self._grace is None and (said := self._volumes.beyond_limits()):
                self._evicted = said
                self._host.event(self.pod, "Evicted", said, bad=True)
                self.end(_EVICTION)

    def _prepare(self) -> bool:
        """Waits for what it is mounted from, for its images, and gets its address."""
        host, node = self._host, self.pod["spec"]["nodeName"]
        self._volumes = Volumes(self.pod, self.folder, host.client, host.exports, host.disks(node))
        for state in self._main:
            state.details = {"reason": "ContainerCreating"}
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
        for state in self._main:
            if not self._host.has_image(state.image) and not self._pull(state):
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

    def _pull(self, state: ContainerState) -> bool:
        """Waits for an image that nobody has, until the pod is to end."""
        image = state.image
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

    def _start_all(self) -> bool:
        specs = zip(self.pod["spec"]["containers"], self._main, strict=True)
        started = [self._start(spec, state) for spec, state in specs]
        return all(started)

    def _start(self, spec: Mapping[str, Any], state: ContainerState) -> bool:
        """Starts a container; False where the pod is to end before it could be."""
        while True:
            try:
                order = self._order(spec, state)
                break
            except (NotReady, KeyError) as why:
                state.wait("CreateContainerConfigError", str(why).strip("'\""))
                self._tell("Pending")
                if self._wait(_PAUSE):
                    return False
        container = Container(order)
        self._containers[spec["name"]] = container
        assert self._sandbox
        state.run()
        container.start(self._sandbox, lambda: self._ended(state, container))
        if container.error:
            program = f"exec: {container.error}"
            message = "failed to create containerd task: failed to create shim task: OCI runtime "
            message += f"create failed: unable to start container process: {program}: unknown"
            state.end(128, "StartError", message)
            self._host.event(self.pod, "Failed", f"Error: {message}", bad=True)
        else:
            self._host.event(self.pod, "Started", f"Started container {spec['name']}")
        return True

    def _ended(self, state: ContainerState, container: Container) -> None:
        assert container.exit_code is not None
        with self._changed:
            state.end(container.exit_code, self._reason)
            self._changed.notify_all()

    def _attend(self) -> None:
        """Until all have ended, or the pod is to end; starts again what is to run for ever."""
        policy = self.pod["spec"]["restartPolicy"]
        pauses: dict[str, float] = {}
        while self._grace is None:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        self._grace is not None or any(not each.is_running for each in self._main)
                    )
                )
            for spec, state in zip(self.pod["spec"]["containers"], self._main, strict=True):
                code = state.exit_code
                if code is None or policy == "Never" or (policy == "OnFailure" and code == 0):
                    continue
                if not self._restart(spec, state, pauses):
                    return
            if policy == "Never" or all(each.exit_code == 0 for each in self._main):
                self._tell("Running")
                with self._changed:
                    self._changed.wait_for(
                        lambda: (
                            self._grace is not None
                            or all(not each.is_running for each in self._main)
                        )
                    )
                return

    def _restart(
        self, spec: Mapping[str, Any], state: ContainerState, pauses: dict[str, float]
    ) -> bool:
        """Starts a container again: at once, and then after longer and longer pauses."""
        pause = pauses.get(state.name, 0.0)
        pauses[state.name] = min(max(2 * pause, self._host.restart_pause), _LONGEST_PAUSE)
        if pause:
            name = self.pod["metadata"]["name"]
            message = f"back-off {pause:.0f}s restarting failed container={state.name} pod={name}"
            state.wait("CrashLoopBackOff", message)
            self._tell("Running")
            if self._wait(pause):
                return False
        state.restarts += 1
        started = self._start(spec, state)
        self._tell("Running")
        return started

    def _end(self) -> str:
        """Ends what still runs; the pod's last phase."""
        running = [each for each in self._main if each.is_running]
        if running:
            assert self._grace is not None
            if not self._lost:
                self._host.event(self.pod, "Killing", f"Stopping container {running[0].name}")
            for each in running:
                number = signal.SIGTERM if self._grace else signal.SIGKILL
                self._containers[each.name].signal(number)
            self._await_end(running)
        for each in self._main:
            if each.state == "waiting":
                each.end(137, "ContainerStatusUnknown", "The container could not be located")
        codes = [each.exit_code for each in self._main]
        return "Succeeded" if all(code == 0 for code in codes) else "Failed"

    def _await_end(self, running: list[ContainerState]) -> None:
        start = time.monotonic()
        with self._changed:
            while any(each.is_running for each in running):
                assert self._grace is not None
                left = start + self._grace - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
        for each in running:
            if each.is_running:
                self._containers[each.name].signal(signal.SIGKILL)
        with self._changed:
            self._changed.wait_for(lambda: not any(each.is_running for each in running))

    def _order(self, spec: Mapping[str, Any], state: ContainerState) -> Order:
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
            log=self._log(spec["name"], state.restarts),
            mounts=[
                *self._mounts,
                *self._volumes.mounts(spec, environment),
                *self._host.devices.mounts(numbers),
            ],
            user=security.get("runAsUser"),
            group=security.get("runAsGroup") or 0,
            hostname="" if is_root() else self._hostname,
        )

    def _log(self, name: str, number: int) -> Path:
        folder = self._host.folder / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.uid}-{name}-{number}"

    def _wait(self, seconds: float) -> bool:
        """Waits, and says whether the pod is to end."""
        with self._changed:
            return self._changed.wait_for(lambda: self._grace is not None, seconds)

    def _tell(self, phase: str) -> None:
        """Writes the pod's status, if it is another than before."""
        address = self._sandbox.address if self._sandbox else ""
        found = status.wire(self.pod, phase, self._main, address)
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
    """NotReady for a pod that is to act on its node, which is this machine, or in several steps."""
    if spec.get("initContainers"):
        raise NotReady("initContainers: the stand-in's nodes run none")
    rights = [each for each in ("hostPID", "hostNetwork", "hostIPC") if spec.get(each)]
    if any((each.get("securityContext") or {}).get("privileged") for each in spec["containers"]):
        rights.append("privileged")
    if rights:
        raise NotReady(f"{rights[0]}: the stand-in's nodes give no pod rights on this machine")
