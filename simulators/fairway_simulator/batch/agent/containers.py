"""Containers of tasks, as far as a node without a runtime can have them.

A command in a container is a process of the node. What decides whether it would start, and what
starts, is as documented: learn.microsoft.com/azure/batch/batch-docker-container-workloads, and the
reference of `docker create`, which takes the options.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Those of `docker create` that somebody may want here; each has a value.
_OPTIONS = frozenset(
    {
        *("--cap-add", "--cap-drop", "--device", "--entrypoint", "--env", "--group-add"),
        *("--ipc", "--memory", "--mount", "--net", "--network", "--pid", "--security-opt"),
        *("--shm-size", "--tmpfs", "--ulimit", "--user", "--volume", "--workdir", "-e", "-v"),
    }
)
_FLAGS = frozenset({"--init", "--privileged", "--read-only"})
# Batch gives GPUs to containers by itself and is not to be told; it refuses another runtime.
_SERVICES_OWN = frozenset({"--gpus", "--runtime"})


class ContainerError(Exception):
    """A container cannot be made; `code` is the service's own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def require_fit(pool: Mapping[str, Any], settings: object) -> None:
    """ContainerError where a task has a container and its pool none, or the reverse: see
    BatchTaskCreateOptions.container_settings of azure-batch."""
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
    """What a command becomes in its container: the arguments of the image's entry point, unless
    the options name another. `images` has the entry point of each image that there is."""
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
