"""A single VM with GPUs: a machine to log in to, with a disk and an address that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.linux_virtual_machine import (
    AdminSshKey,
    BootDiagnostics,
    Identity,
    LinuxVirtualMachine,
    OsDisk,
    OsDiskDiffDiskSettings,
    Plan,
    SourceImageReference,
    TerminationNotification,
)
from fairway_constructs.azurerm.network_interface import IpConfiguration, NetworkInterface
from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init import ADMIN_USERNAME, Mount, custom_data
from fairway_constructs.nodes import (
    TERMINATION_NOTICE,
    check_image,
    check_local_disk,
    cloud_init_of,
    os_disk_gib,
    spot_arguments,
    terms,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.network import PlacedSubnet
    from fairway_constructs.placement import Placement
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Spot


class SingleVm(Component):
    """A VM with the image, mounts, identity and boot of a cluster's node, and no public address.

    Its private address belongs to a network interface of its own, and its system disk is a
    managed one: both are the same after it was stopped overnight. With `local_os_disk` the
    disk is on the VM itself, which can then not be stopped without losing it. Either way the
    VM is replaced when its image, keys or mounts change: what must stay belongs on a mount.

    `image_id` is a gallery image that was made from `image`; `accept_terms` accepts those of
    the Marketplace. With `monitored` it has the Azure Monitor agent, and says how busy its
    GPUs are.

    Raises UserError for an image that does not fit the size, and for a system disk that does
    not fit the VM.

    >>> box = SingleVm(stack, "box", place=place, size=vm_size("Standard_NC24ads_A100_v4"),
    ...                image=image("ubuntu-hpc-2404"), subnet=network.subnets["compute"],
    ...                identity_id=identity.id, ssh_keys=["ssh-ed25519 AAAA…"])  # doctest: +SKIP
    >>> box.main_host  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        place: Placement,
        size: VmSize,
        image: Image,
        subnet: PlacedSubnet,
        identity_id: str,
        ssh_keys: Sequence[str],
        mounts: Sequence[Mount] = (),
        spot: Spot | None = None,
        image_id: str | None = None,
        accept_terms: bool = False,
        local_os_disk: bool = False,
        os_gib: int | None = None,
        proximity_placement_group_id: str | None = None,
        monitored: bool = False,
    ) -> None:
        super().__init__(scope, f"cluster-{name}", name=name)
        check_image(name, size, image)
        gib = os_disk_gib(name, image, os_gib)
        if local_os_disk:
            check_local_disk(name, size, gib, spot)
        host_name = place.name("computer_name_prefix", name)
        interface = _interface(self, name, place, subnet, size)
        self.virtual_machine = LinuxVirtualMachine(
            self,
            f"cluster-{name}",
            name=place.name("linux_virtual_machine", name),
            computer_name=host_name,
            resource_group_name=place.resource_group,
            location=place.location,
            zone=None if place.zone is None else str(place.zone),
            size=size.name,
            network_interface_ids=[interface.id],
            proximity_placement_group_id=proximity_placement_group_id,
            source_image_id=image_id,
            source_image_reference=None if image_id else _image(image),
            plan=_plan(image),
            os_disk=_os_disk(gib, local_os_disk),
            identity=Identity(type="UserAssigned", identity_ids=[identity_id]),
            admin_username=ADMIN_USERNAME,
            admin_ssh_key=[
                AdminSshKey(username=ADMIN_USERNAME, public_key=key) for key in ssh_keys
            ],
            disable_password_authentication=True,
            boot_diagnostics=BootDiagnostics(),
            termination_notification=TerminationNotification(
                enabled=True, timeout=TERMINATION_NOTICE
            ),
            custom_data=custom_data(
                cloud_init_of(
                    name,
                    host_patterns=[host_name],
                    subnet=subnet,
                    size=size,
                    image=image,
                    mounts=mounts,
                    monitored=monitored,
                )
            ),
            **spot_arguments(spot),
            tags=place.tags,
            depends_on=terms(self, image, accept_terms),
        )
        self.id = self.virtual_machine.id
        self.main_host = interface.private_ip_address
        if monitored:
            from fairway_constructs.monitoring_agent import agent_on_machine

            agent_on_machine(
                self,
                f"machine-{name}",
                virtual_machine_id=self.id,
                identity_id=identity_id,
                tags=place.tags,
            )


def _interface(
    scope: Construct, name: str, place: Placement, subnet: PlacedSubnet, size: VmSize
) -> NetworkInterface:
    """Keeps its address for as long as it exists, whatever becomes of the VM."""
    return NetworkInterface(
        scope,
        f"interface-{name}",
        name=place.name("network_interface", name),
        resource_group_name=place.resource_group,
        location=place.location,
        accelerated_networking_enabled=size.accelerated_networking,
        ip_configuration=[
            IpConfiguration(
                name="primary", subnet_id=subnet.id, private_ip_address_allocation="Dynamic"
            )
        ],
        tags=place.tags,
    )


def _os_disk(gib: int, local: bool) -> OsDisk:
    if local:
        return OsDisk(
            caching="ReadOnly",
            storage_account_type="Standard_LRS",
            disk_size_gb=gib,
            diff_disk_settings=OsDiskDiffDiskSettings(option="Local", placement="ResourceDisk"),
        )
    return OsDisk(caching="ReadWrite", storage_account_type="Premium_LRS", disk_size_gb=gib)


def _image(image: Image) -> SourceImageReference:
    return SourceImageReference(
        publisher=image.publisher, offer=image.offer, sku=image.sku, version=image.version
    )


def _plan(image: Image) -> Plan | None:
    plan = image.plan
    if plan is None:
        return None
    return Plan(publisher=plan.publisher, product=plan.product, name=plan.name)
