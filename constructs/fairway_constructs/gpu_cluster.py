"""A cluster of nodes of one size that keeps InfiniBand: one scale set, one placement group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_virtual_machine_scale_set import (
    DataVirtualMachineScaleSet,
)
from fairway_constructs.azurerm.linux_virtual_machine_scale_set import (
    AdminSshKey,
    AutomaticInstanceRepair,
    BootDiagnostics,
    Extension,
    Identity,
    LinuxVirtualMachineScaleSet,
    NetworkInterface,
    NetworkInterfaceIpConfiguration,
    OsDisk,
    OsDiskDiffDiskSettings,
    Plan,
    SourceImageReference,
    SpotRestore,
    TerminationNotification,
)
from fairway_constructs.cdk import Component, Lifecycle
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
from fairway_core.catalog import limit
from fairway_core.environment.cluster import fits_local_disk
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.network import PlacedSubnet
    from fairway_constructs.placement import Placement
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Repair, Spot


class GpuCluster(Component):
    """A uniform scale set whose nodes reach each other over InfiniBand, whatever is asked.

    InfiniBand needs one placement group in at most one zone, and each scale set has a
    partition key of its own: so there is no argument for any of it. Nodes have no public
    address. What they do when they boot is in `cloud_init/node.sh`.

    `image_id` is a gallery image that was made from `image`; `accept_terms` accepts those of
    the Marketplace. The system disk is on the node itself where that has room, unless
    `local_os_disk` says otherwise. With `repair` Azure repairs nodes that say that they are
    unwell; with `resized` something else changes their number, and Terraform leaves it alone.
    With `monitored` each has the Azure Monitor agent, and says how busy its GPUs are. With
    `slurm` each gets its name from a scheduler, which changes their number.

    Raises UserError for more nodes than a placement group holds, for an image that does not
    fit the size, and for a system disk that does not fit the node.

    >>> GpuCluster(stack, "pair", place=place, size=vm_size("Standard_ND96isr_H100_v5"),
    ...            nodes=2, image=image("ubuntu-hpc-2404"), subnet=network.subnets["compute"],
    ...            identity_id=identity.id, ssh_keys=["ssh-ed25519 AAAA…"],
    ...            mounts=[server.mount], spot=Spot(restore="1h"))  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        place: Placement,
        size: VmSize,
        nodes: int,
        image: Image,
        subnet: PlacedSubnet,
        identity_id: str,
        ssh_keys: Sequence[str],
        mounts: Sequence[Mount] = (),
        spot: Spot | None = None,
        repair: Repair | None = None,
        image_id: str | None = None,
        accept_terms: bool = False,
        local_os_disk: bool | None = None,
        os_gib: int | None = None,
        proximity_placement_group_id: str | None = None,
        resized: bool = False,
        monitored: bool = False,
        slurm: SlurmNode | None = None,
    ) -> None:
        super().__init__(scope, f"cluster-{name}", name=name)
        _check_number(name, nodes, least=0 if resized else 1)
        check_image(name, size, image)
        disk = _os_disk(name, size, os_disk_gib(name, image, os_gib), spot, local_os_disk)
        host_prefix = place.name("computer_name_prefix", name)
        self.scale_set = LinuxVirtualMachineScaleSet(
            self,
            f"cluster-{name}",
            name=place.name("linux_virtual_machine_scale_set", name),
            resource_group_name=place.resource_group,
            location=place.location,
            zones=place.zones,
            sku=size.name,
            instances=nodes,
            single_placement_group=True,
            platform_fault_domain_count=1,
            overprovision=False,
            upgrade_mode="Manual",
            computer_name_prefix=host_prefix,
            network_interface=[_interface(subnet, size)],
            proximity_placement_group_id=proximity_placement_group_id,
            source_image_id=image_id,
            source_image_reference=None if image_id else _image(image),
            plan=_plan(image),
            os_disk=disk,
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
                    host_patterns=[f"{host_prefix}*", *([f"{name}-*"] if slurm else [])],
                    subnet=subnet,
                    size=size,
                    image=image,
                    mounts=mounts,
                    monitored=monitored,
                    watched=repair is not None,
                    slurm=slurm,
                )
            ),
            **spot_arguments(spot),
            spot_restore=_restore(spot),
            extension=_extensions(identity_id, monitored=monitored, watched=repair is not None),
            automatic_instance_repair=_repair(repair) if repair else None,
            tags=place.tags,
            lifecycle=Lifecycle(ignore_changes=["instances"]) if resized else None,
            depends_on=terms(self, image, accept_terms),
        )
        self.id = self.scale_set.id
        # Slurm's nodes come and go, and nobody starts at one of them.
        self.main_host = "" if slurm else _first_address(self, name, place, self.scale_set)


def _extensions(identity_id: str, *, monitored: bool, watched: bool) -> list[Extension] | None:
    extensions = []
    if monitored:
        from fairway_constructs.monitoring_agent import agent_on_scale_set

        extensions.append(agent_on_scale_set(identity_id))
    if watched:
        from fairway_constructs.node_health import health_on_scale_set

        extensions.append(health_on_scale_set())
    return extensions or None


def _repair(repair: Repair) -> AutomaticInstanceRepair:
    from fairway_constructs.node_health import automatic_repair

    return automatic_repair(repair)


def _restore(spot: Spot | None) -> SpotRestore | None:
    if spot is None or spot.restore is None:
        return None
    from fairway_core.autoscale import iso_duration

    return SpotRestore(enabled=True, timeout=iso_duration(spot.restore))


def _first_address(
    scope: Construct, name: str, place: Placement, scale_set: LinuxVirtualMachineScaleSet
) -> str:
    """The private address of the first instance, read after the scale set was made.

    The scale set itself does not tell; a host name made of its prefix and a number would
    be wrong as soon as Azure replaces an instance.
    """
    instances = DataVirtualMachineScaleSet(
        scope,
        f"instances-{name}",
        name=scale_set.name,
        resource_group_name=place.resource_group,
    )
    address = instances.reference("instances[0].private_ip_address")
    # Empty while the scale set has no instance, for example when Azure lacks capacity. The
    # runner refuses jobs for a target without an address.
    return f'${{try({address}, "")}}'


def _check_number(name: str, nodes: int, *, least: int) -> None:
    most = limit("placement_group_vms")
    if not least <= nodes <= most:
        raise UserError.of(
            "too-many-nodes",
            f"cluster `{name}`: a placement group holds {least} to {most} nodes, not {nodes}",
            "InfiniBand does not cross scale sets: make several clusters for separate jobs",
        )


def _interface(subnet: PlacedSubnet, size: VmSize) -> NetworkInterface:
    return NetworkInterface(
        name="primary",
        primary=True,
        accelerated_networking_enabled=size.accelerated_networking,
        ip_configuration=[
            NetworkInterfaceIpConfiguration(name="primary", primary=True, subnet_id=subnet.id)
        ],
    )


def _os_disk(name: str, size: VmSize, gib: int, spot: Spot | None, local: bool | None) -> OsDisk:
    """On the node's own disk where that has the room: faster, and nothing to pay or keep."""
    if local is None:
        kept = spot is not None and spot.eviction == "deallocate"
        local = not kept and fits_local_disk(size.name, gib)
    if local:
        check_local_disk(name, size, gib, spot)
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
