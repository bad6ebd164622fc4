"""The VM on which slurmctld runs, which people log in to and submit their jobs from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.linux_virtual_machine import (
    AdminSshKey,
    BootDiagnostics,
    Identity,
    LinuxVirtualMachine,
    OsDisk,
    SourceImageReference,
)
from fairway_constructs.azurerm.network_interface import IpConfiguration, NetworkInterface
from fairway_constructs.azurerm.virtual_machine_data_disk_attachment import (
    VirtualMachineDataDiskAttachment,
)
from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init import ADMIN_USERNAME, Mount, custom_data
from fairway_constructs.cloud_init.slurm import scheduler_cloud_init, scheduler_settings
from fairway_constructs.slurm.configuration import slurm_cluster
from fairway_core.catalog import image, vm_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.network import PlacedSubnet
    from fairway_constructs.placement import Placement
    from fairway_constructs.slurm.foundation import Foundation
    from fairway_core.environment import Slurm, SlurmNodes

_IMAGE = "ubuntu-2404"

# What the machine is called after the environment.
_NAME = "slurm-scheduler"


class Scheduler(Component):
    """A VM in the nodes' subnet with slurmctld, the nodes' file systems, and no public address.

    Its interface and the disk of `foundation` stay where the VM is replaced, as it is when a
    partition is added: jobs go on, and Slurm continues with its queue. `scale_sets` are the
    resource ids of the partitions' scale sets, by name: as text, since these need its address.

    >>> scheduler = Scheduler(stack, place=place, spec=Slurm(), partitions=partitions,
    ...                       scale_sets=ids, foundation=slurm, subnet=network.subnets["compute"],
    ...                       ssh_keys=["ssh-ed25519 AAAA…"], mounts=mounts)  # doctest: +SKIP
    >>> scheduler.address  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "slurm-scheduler",  # noqa: A002
        *,
        place: Placement,
        spec: Slurm,
        partitions: Mapping[str, SlurmNodes],
        scale_sets: Mapping[str, str],
        foundation: Foundation,
        subnet: PlacedSubnet,
        ssh_keys: Sequence[str],
        mounts: Sequence[Mount],
        monitored: bool = False,
    ) -> None:
        super().__init__(scope, id)
        self._place = place
        self._spec = spec
        host = place.name("computer_name_prefix", _NAME)
        interface = self._interface(subnet.id)
        self.address = interface.private_ip_address
        cluster = slurm_cluster(
            place.environment, spec, partitions, host=host, address=self.address
        )
        settings = scheduler_settings(
            scale_sets={
                name: (scale_sets[name], nodes.node_range.min) for name, nodes in partitions.items()
            },
            client_id=foundation.scheduler.client_id,
            vault=foundation.vault_url,
            idle=int(spec.idle),
        )
        cloud_init = scheduler_cloud_init(
            cluster,
            settings=settings,
            mounts=mounts,
            nfs_client_package=image(_IMAGE).nfs_client_package,
            host_patterns=[subnet.address_pattern, *(f"{name}-*" for name in partitions)],
        )
        self.virtual_machine = self._machine(
            host, interface.id, foundation.scheduler.id, ssh_keys, cloud_init
        )
        self.id = self.virtual_machine.id
        VirtualMachineDataDiskAttachment(
            self,
            "slurm-attachment",
            managed_disk_id=foundation.disk.id,
            virtual_machine_id=self.id,
            lun=0,
            caching="None",
        )
        if monitored:
            from fairway_constructs.monitoring_agent import agent_on_machine

            agent_on_machine(
                self,
                "slurm-scheduler",
                virtual_machine_id=self.id,
                identity_id=foundation.scheduler.id,
                tags=place.tags,
            )

    def _interface(self, subnet_id: str) -> NetworkInterface:
        """Keeps its address for as long as it exists: nodes and running jobs know it."""
        return NetworkInterface(
            self,
            "slurm-nic",
            name=self._place.name("network_interface", _NAME),
            resource_group_name=self._place.resource_group,
            location=self._place.location,
            accelerated_networking_enabled=vm_size(
                self._spec.scheduler_size
            ).accelerated_networking,
            ip_configuration=[
                IpConfiguration(
                    name="primary", subnet_id=subnet_id, private_ip_address_allocation="Dynamic"
                )
            ],
            tags=self._place.tags,
        )

    def _machine(
        self,
        host: str,
        interface_id: str,
        identity_id: str,
        ssh_keys: Sequence[str],
        cloud_init: str,
    ) -> LinuxVirtualMachine:
        size, system, place = vm_size(self._spec.scheduler_size), image(_IMAGE), self._place
        return LinuxVirtualMachine(
            self,
            "slurm-scheduler",
            name=place.name("linux_virtual_machine", _NAME),
            computer_name=host,
            resource_group_name=place.resource_group,
            location=place.location,
            zone=None if place.zone is None else str(place.zone),
            size=size.name,
            disk_controller_type=size.disk_controller or None,
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
            custom_data=custom_data(cloud_init),
            identity=Identity(type="UserAssigned", identity_ids=[identity_id]),
            tags=place.tags,
        )
