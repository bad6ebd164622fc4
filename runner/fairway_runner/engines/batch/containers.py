"""How a task runs in a container on a node of Batch's."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.target import Target
    from fairway_runner.jobs.job import Container

# Docker's own 64 MB make MPI and data loaders crash.
_SHARED_MEMORY = "8g"

# Where nodes have their local NVMe disks, see cloud_init/node.sh.
_NVME = "/mnt/resource_nvme"


def container_settings(
    container: Container, target: Target, identity: Mapping[str, str] | None
) -> dict[str, Any]:
    """The settings in their wire form; `identity` is who pulls the image from a registry of
    Azure's."""
    settings: dict[str, Any] = {
        "imageName": container.image,
        "workingDirectory": "taskWorkingDirectory",
        "containerRunOptions": shlex.join(_options(container, target)),
    }
    server = container.image.split("/")[0]
    if server.endswith(".azurecr.io") and identity:
        settings["registry"] = {"registryServer": server, "identityReference": dict(identity)}
    return settings


def _options(container: Container, target: Target) -> list[str]:
    size = vm_size(target.vm_size) if target.vm_size else None
    options = [
        # Ranks find each other by the nodes' own addresses.
        "--net=host",
        *("--ulimit", "memlock=-1", "--ulimit", "stack=-1"),
        f"--shm-size={container.shm_size or _SHARED_MEMORY}",
    ]
    if not any(option.startswith("--entrypoint") for option in container.options):
        # An image's own would be started with our command as its arguments.
        options.append("--entrypoint=")
    # NVIDIA's Batch itself gives to containers, and is not to be told: see
    # learn.microsoft.com/azure/batch/batch-docker-container-workloads.
    if size is not None and size.gpu and size.gpu.vendor != "nvidia":
        options += ["--device=/dev/kfd", "--device=/dev/dri"]
    if size is not None and size.rdma:
        options.append("--device=/dev/infiniband")
        if size.gpu and size.gpu.vendor == "nvidia":
            # The image's settings for NCCL, and the topology files that they name. Docker would
            # make a folder of a file that is not there, as on images for other sizes.
            options += ["--volume=/etc/nccl.conf:/etc/nccl.conf:ro"]
            options += ["--volume=/opt/microsoft:/opt/microsoft:ro"]
    if size is not None and size.nvme_disks and target.environment:
        # FAIRWAY_SCRATCH_DIR is there. Nodes that no environment of ours made may have no such
        # folder, which Docker would then make on the system disk.
        options.append(f"--volume={_NVME}:{_NVME}")
    for path in target.mounts.values():
        options.append(f"--volume={path}:{path}")
    return [*options, *container.options]
