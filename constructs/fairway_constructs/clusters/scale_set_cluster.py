"""A cluster of nodes of one size that preserves InfiniBand: one scale set, one placement group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fairway_constructs.azurerm import linux_virtual_machine_scale_set as vmss
from fairway_constructs.azurerm.data_virtual_machine_scale_set import DataVirtualMachineScaleSet
from fairway_constructs.cdk import Lifecycle, wait_for
from fairway_constructs.cloud_init import custom_data
from fairway_constructs.cloud_init.people import accounts_extension
from fairway_constructs.clusters.nodes import (
    NodeSpec,
    check_image,
    cloud_init_of,
    keeps_disk,
    node_arguments,
)
from fairway_constructs.extensions import health, monitoring_agent
from fairway_constructs.targets import TakesJobs, node_facts
from fairway_core.autoscale import iso_duration
from fairway_core.documents import FieldError
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mounts
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Repair, Spot
    from fairway_core.environment.clusters.node_rules import ScaleSetNodes
    from fairway_core.environment.clusters.ssh import Idle
    from fairway_core.fields import Count
    from fairway_core.resource_ids import ImageVersionId, PlacementGroupId


# The number of nodes whose addresses the runner knows: Azure does not replace all at once.
_KNOWN_HOSTS = 4


class ScaleSetCluster(TakesJobs):
    """A uniform scale set whose nodes reach each other over InfiniBand.

    InfiniBand needs one placement group in at most one zone, and each scale set has a partition key
    of its own: so neither has an argument. Nodes have no public address. `cloud_init/node.sh` is
    their boot script.

    `image` is by default the one that fits the size; `image_id` is a gallery image that was made
    from it; `accept_terms` accepts the terms of the Marketplace. The system disk, of `os_gib` or
    else the size that the image needs, is on the node itself if it has room, unless `local_os_disk`
    says otherwise. With `monitored` nodes have the Azure Monitor agent, and report how busy their
    GPUs are. `accounts` are the users' own. Nodes that nobody has used for `idle` seconds stop
    themselves. With `repair` Azure repairs nodes that report themselves unhealthy; with
    `externally_scaled` something else changes their number, and Terraform ignores it. With `slurm`
    each gets its name from a scheduler, which changes their number.

    `main_host` is the address of its first instance, and `other_hosts` those of some more:
    references, which are empty until Azure has created the instances.

    Raises UserError for more nodes than a placement group holds, for an image that does not fit the
    size, for a system disk that does not fit the node, and for more boot data than Azure accepts.

    >>> ScaleSetCluster(stack, "pair", nodes=2, size="Standard_ND96isr_H100_v5",
    ...                 image="ubuntu-hpc-2404", subnet=network.subnet("compute"),
    ...                 identity=identity, mounts=[home],
    ...                 spot=Spot(restore="1h"))
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        nodes: ScaleSetNodes | Literal[0],
        size: VmSize | str,
        subnet: SubnetRef,
        identity: IIdentity,
        image: Image | str | None = None,
        mounts: Mounts = (),
        spot: Spot | None = None,
        image_id: ImageVersionId | None = None,
        accept_terms: bool = False,
        local_os_disk: bool | None = None,
        os_gib: Count | None = None,
        proximity_placement_group_id: PlacementGroupId | None = None,
        monitored: bool = False,
        accounts: Accounts | None = None,
        idle: Idle | None = None,
        repair: Repair | None = None,
        externally_scaled: bool = False,
        slurm: SlurmNode | None = None,
    ) -> None:
        spec = NodeSpec.of(locals())
        super().__init__(scope, f"cluster-{name}")
        if not nodes and not externally_scaled:
            raise FieldError(f"cluster `{name}` has no nodes", "write 1 or more", ("nodes",))
        check_image(name, spec)
        self._joins(spec.size, nodes)
        self._name, self._spec, self._nodes, self.identity = name, spec, nodes, identity
        self.scale_set = self._scale_set(repair, slurm, externally_scaled=externally_scaled)
        wait_for(self.scale_set, *subnet.ready, identity, *mounts)
        self.id, self.range = self.scale_set.id, spec.subnet.range
        # Slurm's nodes come and go, and jobs do not start from one of them.
        self.main_host, *self.other_hosts = [""] if slurm else self._addresses(nodes)

    def _scale_set(
        self, repair: Repair | None, slurm: SlurmNode | None, *, externally_scaled: bool
    ) -> vmss.LinuxVirtualMachineScaleSet:
        name, spec, azure = self._name, self._spec, self.azure
        host_prefix = azure.name("computer_name_prefix", name)
        boot = cloud_init_of(
            name,
            spec,
            host_patterns=[f"{host_prefix}*", *([f"{name}-*"] if slurm else [])],
            health_probe=repair is not None,
            slurm=slurm,
            proxy=azure.proxy,
        )
        extensions = []
        if spec.accounts is not None and slurm is None:
            extensions.append(accounts_extension(spec.accounts))
        if spec.monitored:
            extensions.append(monitoring_agent(self.identity.id, azure.proxy))
        if repair:
            extensions.append(health())
        return vmss.LinuxVirtualMachineScaleSet(
            self,
            f"cluster-{name}",
            name=azure.name("linux_virtual_machine_scale_set", name),
            **azure.common_of("slurm-partition" if slurm else "cluster", name),
            zones=azure.zones,
            sku=spec.size.name,
            instances=self._nodes,
            single_placement_group=True,
            platform_fault_domain_count=1,
            overprovision=False,
            upgrade_mode="Manual",
            computer_name_prefix=host_prefix,
            network_interface=[
                vmss.NetworkInterface(
                    name="primary",
                    primary=True,
                    accelerated_networking_enabled=spec.size.accelerated_networking,
                    ip_configuration=[
                        vmss.NetworkInterfaceIpConfiguration(
                            name="primary", primary=True, subnet_id=spec.subnet.id
                        )
                    ],
                )
            ],
            identity=vmss.Identity(type="UserAssigned", identity_ids=[self.identity.id]),
            custom_data=custom_data(boot),
            spot_restore=(
                vmss.SpotRestore(enabled=True, timeout=iso_duration(spec.spot.restore))
                if spec.spot and spec.spot.restore is not None
                else None
            ),
            extension=[vmss.Extension(**each) for each in extensions] or None,
            automatic_instance_repair=(
                vmss.AutomaticInstanceRepair(
                    enabled=True,
                    action=repair.action.capitalize(),
                    grace_period=iso_duration(repair.grace),
                )
                if repair
                else None
            ),
            lifecycle=Lifecycle(ignore_changes=["instances"]) if externally_scaled else None,
            **node_arguments(self, vmss, name, spec, local=not keeps_disk(spec)),
        )

    def _facts(self) -> dict[str, Any]:
        if not self.main_host:
            raise UserError.of(
                "no-target",
                f"jobs come to the nodes of `{self._name}` by their scheduler",
                f'pass `scheduler.partition("{self._name}")`',
            )
        hosts = (self.main_host, *self.other_hosts)
        return node_facts(self._name, self._spec, self.id, hosts, self._nodes)

    def _addresses(self, nodes: int) -> list[str]:
        """Returns the private addresses of the first instances, read once the scale set exists.

        The scale set itself does not expose them; a host name made of its prefix and a number would
        be wrong as soon as Azure replaces an instance.
        """
        instances = DataVirtualMachineScaleSet(
            self,
            f"instances-{self._name}",
            name=self.scale_set.name,
            resource_group_name=self.azure.resource_group,
        )
        found = (
            instances.reference(f"instances[{number}].private_ip_address")
            for number in range(max(1, min(nodes, _KNOWN_HOSTS)))
        )
        # Empty if the scale set has fewer instances, for example when Azure lacks capacity. The
        # runner refuses jobs for a target without an address.
        return [f'${{try({address}, "")}}' for address in found]
