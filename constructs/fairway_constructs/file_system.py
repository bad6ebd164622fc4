"""The common part of all shared file systems: how nodes mount one, and how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component

if TYPE_CHECKING:
    from fairway_constructs.azurerm.linux_virtual_machine import LinuxVirtualMachine
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_core.environment.filesystem_base import FileSystem as FileSystemSpec


class FileSystem(Component):
    """A shared file system, whatever its kind.

    `mount` is how nodes mount it; `throughput_mbps` what it can reach, in MB/s, and `limited_by`
    what keeps it from more. One that a VM serves has it as `virtual_machine`.
    """

    mount: Mount
    virtual_machine: LinuxVirtualMachine | None = None

    def __init__(self, scope: Construct, id: str, spec: FileSystemSpec) -> None:  # noqa: A002
        super().__init__(scope, id)
        self.throughput_mbps = spec.throughput_mbps
        self.limited_by = spec.limited_by
