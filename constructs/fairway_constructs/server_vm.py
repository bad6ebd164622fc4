"""The machine of an environment's service: a VM with Ubuntu, and its network interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm import linux_virtual_machine as vm
from fairway_constructs.azurerm.network_interface import IpConfiguration, NetworkInterface
from fairway_constructs.azurerm.virtual_machine_data_disk_attachment import (
    VirtualMachineDataDiskAttachment,
)
from fairway_constructs.cloud_init import custom_data
from fairway_constructs.clusters.nodes import login_arguments
from fairway_constructs.extensions import equip
from fairway_constructs.scope import azure_scope_of
from fairway_core.catalog.images import SERVER_IMAGE, image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_core.catalog import VmSize


def private_interface(
    scope: Construct, id: str, *, name: str, size: VmSize, subnet_id: str
) -> NetworkInterface:
    """Creates a network interface, whose private address survives the replacement of its VM.

    `name` is the machine's name after the environment's.
    """
    azure = azure_scope_of(scope)
    return NetworkInterface(
        scope,
        id,
        name=azure.name("network_interface", name),
        **azure.common,
        accelerated_networking_enabled=size.accelerated_networking,
        ip_configuration=[
            IpConfiguration(
                name="primary", subnet_id=subnet_id, private_ip_address_allocation="Dynamic"
            )
        ],
    )


def server_vm(
    scope: Construct,
    id: str,
    *,
    name: str,
    role: str,
    serves: str = "",
    size: VmSize,
    interface_id: str,
    cloud_init: str | None = None,
    identity_ids: Sequence[str] = (),
    host_name: str | None = None,
    ultra_disks: bool = False,
    more_tags: Mapping[str, str] | None = None,
    accounts: Accounts | None = None,
    agent_identity_id: str | None = None,
    depends_on: Sequence[Construct] = (),
) -> vm.LinuxVirtualMachine:
    """Creates the VM of such an interface, after `depends_on`.

    `name` is its name after the environment's, `role` its purpose, and `serves` the name of what it
    serves. With `ultra_disks` those can be attached to it. `accounts` are the users' own; Azure
    Monitor's agent signs in with the identity `agent_identity_id`, if that is given.
    """
    azure = azure_scope_of(scope)
    system = image(SERVER_IMAGE)
    common = azure.common_of(role, serves)
    common["tags"] = {**(common["tags"] or {}), **(more_tags or {})}
    machine = vm.LinuxVirtualMachine(
        scope,
        id,
        name=azure.name("linux_virtual_machine", name),
        computer_name=host_name,
        **common,
        zone=azure.zone_text,
        size=size.name,
        disk_controller_type=size.disk_controller or None,
        additional_capabilities=(
            vm.AdditionalCapabilities(ultra_ssd_enabled=True) if ultra_disks else None
        ),
        network_interface_ids=[interface_id],
        source_image_reference=vm.SourceImageReference(**system.urn_parts),
        secure_boot_enabled=True,
        vtpm_enabled=True,
        os_disk=vm.OsDisk(
            caching="ReadWrite", storage_account_type="Premium_LRS", disk_size_gb=system.os_disk_gib
        ),
        **login_arguments(scope, vm),
        custom_data=None if cloud_init is None else custom_data(cloud_init),
        identity=(
            vm.Identity(type="UserAssigned", identity_ids=list(identity_ids))
            if identity_ids
            else None
        ),
    )
    for each in depends_on:
        machine.node.add_dependency(each)
    equip(
        scope,
        id,
        virtual_machine_id=machine.id,
        accounts=accounts,
        agent_identity_id=agent_identity_id,
    )
    return machine


def attach(
    scope: Construct, id: str, disk_id: str, *, to: str, lun: int = 0
) -> VirtualMachineDataDiskAttachment:
    """Attaches a data disk to a VM, by their ids: the disk stays if the VM is replaced.

    Azure does not cache it, as Premium SSD v2 and Ultra disks do not support that: the server
    caches in its memory.
    """
    return VirtualMachineDataDiskAttachment(
        scope, id, managed_disk_id=disk_id, virtual_machine_id=to, lun=lun, caching="None"
    )
