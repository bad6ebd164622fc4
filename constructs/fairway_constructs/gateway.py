"""A small VM that ssh leads to, for what has a private address and is no VM itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.linux_virtual_machine import (
    AdminSshKey,
    BootDiagnostics,
    LinuxVirtualMachine,
    OsDisk,
    SourceImageReference,
)
from fairway_constructs.azurerm.network_interface import IpConfiguration, NetworkInterface
from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_core.catalog import image, vm_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement

_IMAGE = "ubuntu-2404"

# What the machine is called after the environment.
_NAME = "gateway"


class Gateway(Component):
    """A VM through which people's machines reach storage and Batch by their private addresses.

    It has no identity and no file system: who gets in may do there what their own sign-in lets
    them do, and no more. Its address stays where the VM is replaced.

    >>> gateway = Gateway(stack, place=place, size="Standard_D2s_v6", subnet_id=subnet.id,
    ...                   ssh_keys=["ssh-ed25519 AAAA…"])  # doctest: +SKIP
    >>> gateway.address  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "gateway",  # noqa: A002
        *,
        place: Placement,
        size: str,
        subnet_id: str,
        ssh_keys: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        self._place, self._size = place, vm_size(size)
        interface = self._interface(subnet_id)
        self.address = interface.private_ip_address
        self.virtual_machine = self._machine(interface.id, ssh_keys)

    def _interface(self, subnet_id: str) -> NetworkInterface:
        place = self._place
        return NetworkInterface(
            self,
            "gateway-nic",
            name=place.name("network_interface", _NAME),
            resource_group_name=place.resource_group,
            location=place.location,
            accelerated_networking_enabled=self._size.accelerated_networking,
            ip_configuration=[
                IpConfiguration(
                    name="primary", subnet_id=subnet_id, private_ip_address_allocation="Dynamic"
                )
            ],
            tags=place.tags,
        )

    def _machine(self, interface_id: str, ssh_keys: Sequence[str]) -> LinuxVirtualMachine:
        place, system = self._place, image(_IMAGE)
        return LinuxVirtualMachine(
            self,
            "gateway",
            name=place.name("linux_virtual_machine", _NAME),
            resource_group_name=place.resource_group,
            location=place.location,
            zone=None if place.zone is None else str(place.zone),
            size=self._size.name,
            disk_controller_type=self._size.disk_controller or None,
            network_interface_ids=[interface_id],
            source_image_reference=SourceImageReference(
                publisher=system.publisher,
                offer=system.offer,
                sku=system.sku,
                version=system.version,
            ),
            secure_boot_enabled=True,
            vtpm_enabled=True,
            os_disk=OsDisk(
                caching="ReadWrite",
                storage_account_type="Premium_LRS",
                disk_size_gb=system.os_disk_gib,
            ),
            admin_username=ADMIN_USERNAME,
            admin_ssh_key=[
                AdminSshKey(username=ADMIN_USERNAME, public_key=key) for key in ssh_keys
            ],
            disable_password_authentication=True,
            boot_diagnostics=BootDiagnostics(),
            tags=place.tags,
        )
