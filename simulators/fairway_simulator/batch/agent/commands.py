"""Commands in their folders on a node: preparation and release tasks and tasks alike."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent import environment, layout
from fairway_simulator.batch.agent.isolation import ProcessSpaces
from fairway_simulator.batch.agent.supervisor_client import Supervisor
from fairway_simulator.batch.model.job import Outcome, exited, failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.batch.agent.isolation import Network
    from fairway_simulator.batch.agent.layout import Layout
    from fairway_simulator.batch.agent.transfers import Blobs, TransferError
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.pool import Node


# Supported options of `docker create` that take a value.
_OPTIONS = frozenset(
    {
        *("--cap-add", "--cap-drop", "--device", "--entrypoint", "--env", "--group-add"),
        *("--ipc", "--memory", "--mount", "--net", "--network", "--pid", "--security-opt"),
        *("--shm-size", "--tmpfs", "--ulimit", "--user", "--volume", "--workdir", "-e", "-v"),
    }
)
_FLAGS = frozenset({"--init", "--privileged", "--read-only"})
# Batch sets these itself: it gives GPUs to containers, and refuses another runtime.
_SERVICES_OWN = frozenset({"--gpus", "--runtime"})


class ContainerError(Exception):
    """Error that a container cannot be created; `code` is the service's own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def require_fit(pool: Mapping[str, Any], settings: object) -> None:
    """Raises ContainerError if a task has a container and its pool does not support them, or vice
    versa. Source: BatchTaskCreateOptions.container_settings of azure-batch."""
    machine = pool.get("virtualMachineConfiguration") or {}
    if settings and not machine.get("containerConfiguration"):
        raise ContainerError("ContainerPoolNotSupported", "The pool's nodes have no containers")
    if machine.get("containerConfiguration") and not settings:
        raise ContainerError(
            "InvalidContainerSettings", "Tasks on a pool with containers name an image"
        )


def arguments(
    settings: Mapping[str, Any], command: Sequence[str], images: Mapping[str, Sequence[str]]
) -> list[str]:
    """Returns the command line of a command in its container: the entry point of the image or of
    the options, followed by the command. `images` maps each existing image to its entry point."""
    name = str(settings["imageName"])
    image = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    if image not in images:
        raise ContainerError("ContainerImageNotFound", f"There is no image {image}")
    words = iter(shlex.split(str(settings.get("containerRunOptions") or "")))
    entry = list(images[image])
    for word in words:
        option, sign, value = word.partition("=")
        if option in _SERVICES_OWN:
            raise ContainerError("ContainerCreationFailed", f"Batch sets {option} by itself")
        if option in _FLAGS:
            continue
        if option not in _OPTIONS:
            raise ContainerError("ContainerCreationFailed", f"unknown flag: {option}")
        given = value if sign else next(words, None)
        if given is None:
            raise ContainerError("ContainerCreationFailed", f"flag needs an argument: {option}")
        if option == "--entrypoint":
            entry = [given] if given else []
    return [*entry, *command]


class NodeLost(Exception):
    """Error that a node was removed or rebooted during an operation on it."""


@dataclass(frozen=True)
class TaskFolder:
    """A task's folder on a node: `relative` to the node's root, `host` as this process sees it,
    `seen` as the node does."""

    node: Node
    relative: str
    host: Path
    seen: str

    def make(self) -> None:
        (self.host / "wd").mkdir(parents=True, exist_ok=True)
        for name in ("stdout.txt", "stderr.txt"):
            (self.host / name).write_bytes(b"")

    def remove(self) -> None:
        shutil.rmtree(self.host, ignore_errors=True)


class NodeAgent:
    def __init__(
        self,
        account: Account,
        layout: Layout,
        blobs: Blobs,
        images: Mapping[str, Sequence[str]],
        network: Network,
    ) -> None:
        self.account = account
        self.layout = layout
        self.blobs = blobs
        self.images = images
        """The existing container images, each with its entry point."""
        self.network = network
        self.processes = ProcessSpaces()

    def task_folder(self, node: Node, relative: str) -> TaskFolder:
        seen = f"{self.layout.root(node)}/{relative}"
        return TaskFolder(node, relative, node.folder / relative, seen)

    def supervise(self, node: Node, generation: int, *binds: tuple[str, str]) -> Supervisor:
        """Starts a supervisor on a node, with `binds` as additional mounts. Raises NodeLost if the
        node is no longer of this generation."""
        with self.account.changed:
            if node.generation != generation:
                raise NodeLost
        start = partial(self.network.start, node)
        setting = replace(self.layout.setting(node, *binds), enter=self.processes.words(node))
        supervisor = Supervisor(setting, start)
        with self.account.changed:
            if node.generation == generation:
                node.supervisors.add(supervisor)
                return supervisor
        supervisor.close()
        raise NodeLost

    def dismiss(self, node: Node, supervisor: Supervisor) -> None:
        supervisor.close()
        with self.account.changed:
            node.supervisors.discard(supervisor)

    def run(
        self,
        supervisor: Supervisor,
        task_folder: TaskFolder,
        command_line: str,
        variables: Mapping[str, str],
        container: Mapping[str, Any] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> Outcome | None:
        """Runs a command line in its folder, in that container if there is one, as the user of that
        identity. Returns None if the supervisor was ended in the meantime."""
        try:
            argv = shlex.split(command_line)
        except ValueError as error:
            return _not_launched("CommandLaunchFailed", f"the command line cannot be read: {error}")
        if not argv:
            return _not_launched("CommandLaunchFailed", "the command line is empty")
        if container:
            try:
                argv = arguments(container, argv, self.images)
            except ContainerError as error:
                return _not_launched(error.code, str(error))
        own = environment.of_node(self.account, self.layout, task_folder.node)
        if self.network.shared:
            own |= environment.of_shared_network(task_folder.node)
        if layout.id_of(identity) is not None:
            own["USER"] = layout.NAME
        end = supervisor.run(
            argv,
            f"{task_folder.seen}/wd",
            own | dict(variables),
            f"{task_folder.seen}/stdout.txt",
            f"{task_folder.seen}/stderr.txt",
            layout.id_of(identity),
        )
        if end.exit_code is not None:
            return exited(end.exit_code)
        if end.missing:
            return _not_launched(
                "CommandProgramNotFound", "The specified command program is not found"
            )
        return _not_launched("CommandLaunchFailed", end.error) if end.error else None


def _not_launched(code: str, message: str) -> Outcome:
    return Outcome("preprocessing", None, failure(code, message))


def not_transferred(error: TransferError, *, kind: str) -> Outcome:
    """Returns the outcome of a failed download (`preprocessing`) or upload (`upload`)."""
    info = failure(error.code, str(error), FilePath=error.where)
    return Outcome("upload" if kind == "upload" else "preprocessing", None, info)
