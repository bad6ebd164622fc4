"""VMs on which people log in and submit their jobs, apart from the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init.slurm import login_cloud_init
from fairway_constructs.server_vm import private_interface, server_vm
from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mounts
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.slurm.scheduler import SlurmScheduler
    from fairway_constructs.slurm.shared_resources import SlurmFoundation


class SlurmLoginNode(Component):
    """A VM in the nodes' subnet with Slurm's commands and key and the nodes' file systems.

    It knows the configuration of `scheduler`, and is replaced when that changes; its address and
    what lies on the file systems stay. Its identity is that of the nodes; `managed_identities` are
    those of what else runs there.

    >>> node = SlurmLoginNode(stack, "slurm-login-0", size="Standard_D4s_v6",
    ...                       scheduler=scheduler, foundation=slurm, mounts=mounts,
    ...                       subnet=network.subnets["compute"])  # doctest: +SKIP
    >>> node.address  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        size: str,
        scheduler: SlurmScheduler,
        foundation: SlurmFoundation,
        subnet: SubnetRef,
        mounts: Mounts,
        monitored: bool = False,
        accounts: Accounts | None = None,
        managed_identities: Sequence[IIdentity] = (),
    ) -> None:
        super().__init__(scope, name)
        place = self.place
        machine = vm_size(size)
        interface = private_interface(
            self, f"{name}-nic", name=name, size=machine, subnet_id=subnet.id
        )
        self.address = interface.private_ip_address
        scheduler.hosts.append(self.address)
        self.virtual_machine = server_vm(
            self,
            name,
            name=name,
            host_name=place.name("computer_name_prefix", name),
            role="slurm-login",
            size=machine,
            interface_id=interface.id,
            cloud_init=login_cloud_init(
                scheduler.cluster,
                vault=foundation.vault_url,
                client_id=foundation.nodes.client_id,
                mounts=mounts,
                host_patterns=[
                    subnet.address_pattern,
                    *(f"{each.name}-*" for each in scheduler.cluster.partitions),
                ],
                proxy=place.proxy,
            ),
            identity_ids=[foundation.nodes.id, *(each.id for each in managed_identities)],
            accounts=accounts,
            agent_identity_id=foundation.nodes.id if monitored else None,
        )
        self.id = self.virtual_machine.id
