"""A cluster of nodes of one size that keeps InfiniBand: one scale set, one placement group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_virtual_machine_scale_set import (
    DataVirtualMachineScaleSet,
)
from fairway_constructs.azurerm.linux_virtual_machine_scale_set import (
    AdminSshKey,
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
    TerminationNotification,
)
from fairway_constructs.cloud_init import (
    ADMIN_USERNAME,
    Mount,
    custom_data,
    node_cloud_init,
)
from fairway_core.catalog import limit
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.network import PlacedSubnet
    from fairway_constructs.placement import Placement
    from fairway_core.catalog import Image, VmSize

# Time for a job to write a checkpoint before Azure deletes its node.
_TERMINATION_NOTICE = "PT5M"


class GpuCluster:
    """A uniform scale set whose nodes reach each other over InfiniBand, whatever is asked.

    InfiniBand needs one placement group in at most one zone, and each scale set has a
    partition key of its own: so there is no argument for any of it. Nodes have no public
    address. What they do when they boot is in `cloud_init/node.sh`.

    With `monitored` each node has the Azure Monitor agent, and says how busy its GPUs are.

    Raises UserError for more nodes than a placement group holds, and for an image that does
    not fit the size.

    >>> GpuCluster(stack, "pair", place=place, size=vm_size("Standard_ND96isr_H100_v5"),
    ...            nodes=2, image=image("ubuntu-hpc-2404"), subnet=network.subnets["compute"],
    ...            identity_id=identity.id, ssh_keys=["ssh-ed25519 AAAA…"],
    ...            mounts=[server.mount])  # doctest: +SKIP
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
        monitored: bool = False,
    ) -> None:
        _check(name, size, nodes, image)
        host_prefix = place.name("computer_name_prefix", name)
        cloud_init = node_cloud_init(
            cluster=name,
            mounts=mounts,
            nfs_client_package=image.nfs_client_package,
            host_patterns=[f"{host_prefix}*", subnet.address_pattern],
            gpu_metrics=monitored and sends_gpu_metrics(size),
        )
        self.scale_set = LinuxVirtualMachineScaleSet(
            scope,
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
            source_image_reference=SourceImageReference(
                publisher=image.publisher,
                offer=image.offer,
                sku=image.sku,
                version=image.version,
            ),
            plan=_plan(image),
            os_disk=_os_disk(size, image),
            identity=Identity(type="UserAssigned", identity_ids=[identity_id]),
            admin_username=ADMIN_USERNAME,
            admin_ssh_key=[
                AdminSshKey(username=ADMIN_USERNAME, public_key=key) for key in ssh_keys
            ],
            disable_password_authentication=True,
            boot_diagnostics=BootDiagnostics(),
            termination_notification=TerminationNotification(
                enabled=True, timeout=_TERMINATION_NOTICE
            ),
            custom_data=custom_data(cloud_init),
            extension=_agent(identity_id) if monitored else None,
            tags=place.tags,
        )
        self.main_host = _first_address(scope, name, place, self.scale_set)


def _agent(identity_id: str) -> list[Extension]:
    from fairway_constructs.monitoring_agent import agent_on_scale_set

    return [agent_on_scale_set(identity_id)]


def sends_gpu_metrics(size: VmSize) -> bool:
    """Whether nodes of that size say how busy their GPUs are: those of NVIDIA do."""
    return size.gpu is not None and size.gpu.vendor == "nvidia"


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
    # Empty while the scale set has no instance, for example when Azure lacks capacity.
    return f'${{try({address}, "")}}'


def _check(name: str, size: VmSize, nodes: int, image: Image) -> None:
    most = limit("placement_group_vms")
    if not 1 <= nodes <= most:
        raise UserError.of(
            "too-many-nodes",
            f"cluster `{name}`: a placement group holds 1 to {most} nodes, not {nodes}",
            "InfiniBand does not cross scale sets: make several clusters for separate jobs",
        )
    if not image.fits(size):
        raise UserError.of(
            "image-does-not-fit", f"cluster `{name}`: image {image.alias} does not fit {size.name}"
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


def _os_disk(size: VmSize, image: Image) -> OsDisk:
    """On the node's own disk where that has the room: faster, and nothing to pay or keep."""
    if size.ephemeral_os and size.temp_disk_gib > image.os_disk_gib:
        return OsDisk(
            caching="ReadOnly",
            storage_account_type="Standard_LRS",
            disk_size_gb=image.os_disk_gib,
            diff_disk_settings=OsDiskDiffDiskSettings(option="Local", placement="ResourceDisk"),
        )
    return OsDisk(
        caching="ReadWrite", storage_account_type="Premium_LRS", disk_size_gb=image.os_disk_gib
    )


def _plan(image: Image) -> Plan | None:
    plan = image.plan
    if plan is None:
        return None
    return Plan(publisher=plan.publisher, product=plan.product, name=plan.name)
