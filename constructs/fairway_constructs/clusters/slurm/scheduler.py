"""The VM that runs slurmctld, and the VMs on which users log in and submit their jobs."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fairway_constructs.cdk import Component, wait_for
from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_constructs.cloud_init.mounts import mounts_of
from fairway_constructs.cloud_init.slurm import login_cloud_init, scheduler_cloud_init
from fairway_constructs.clusters.slurm.configuration import slurm_cluster, with_shares
from fairway_constructs.identity import assign_role, custom_role
from fairway_constructs.scope import azure_scope_of, subscription_of
from fairway_constructs.server_vm import attach, private_interface, server_vm
from fairway_constructs.targets import TakesJobs, folder_of_runs, job_facts
from fairway_core.catalog import vm_size
from fairway_core.catalog.tables import look_up
from fairway_core.environment import Slurm
from fairway_core.naming import SLURM_TAG
from fairway_core.slurm.cluster import PLACES, READS_OPERATIONS, SCALES
from fairway_core.target import SlurmAccess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mount, Mounts
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.clusters.slurm.configuration import SlurmPartition
    from fairway_constructs.clusters.slurm.shared_state import SlurmSharedState
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.environment.clusters.slurm.scheduler import Idle, SlurmRepository
    from fairway_core.fields import Count
    from fairway_core.slurm.cluster import Qos


# The machine's name after the environment's.
_NAME = "slurm-scheduler"


class SlurmScheduler(Component):
    """A VM in the nodes' subnet with slurmctld, the nodes' file systems, and no public address.

    Its interface and the disk of `shared_state` stay if the VM is replaced, as it is when a
    partition is added: jobs continue, and so does Slurm with its queue. `scale_sets` are the
    resource ids of the partitions' scale sets, by name: as text, since these need its address.

    `size` is its VM size; an idle node is deleted after `idle` seconds. Slurm comes from
    `packages`, which must be those of the nodes. With `accounting` the history of all jobs is kept
    in a database; jobs are then charged to the accounts of `account_shares`, each with its fair
    share, and have the qualities of service `qos`. `accounts` are the users' on the machine, which
    is created after the resources that its subnet needs, `shared_state`, its file systems and
    `depends_on`.

    Raises UserError for unsupported settings, such as qualities of service without accounting.

    >>> partitions = {"nd": SlurmPartition(size="Standard_ND96isr_H100_v5", nodes=16)}
    >>> scheduler = SlurmScheduler(stack, partitions=partitions, scale_sets=ids, shared_state=slurm,
    ...                            mounts=[home], subnet=network.subnet("compute"))
    >>> scheduler.address
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "slurm-scheduler",
        *,
        partitions: Mapping[str, SlurmPartition],
        scale_sets: Mapping[str, str],
        shared_state: SlurmSharedState,
        subnet: SubnetRef,
        mounts: Mounts,
        size: str | None = None,
        idle: Idle | None = None,
        packages: Literal["distribution", "microsoft"] | SlurmRepository = "distribution",
        accounting: bool = True,
        account_shares: Mapping[str, Count] | None = None,
        qos: Mapping[str, Qos] | None = None,
        monitored: bool = False,
        accounts: Accounts | None = None,
        depends_on: Sequence[Construct] = (),
    ) -> None:
        spec = Slurm.with_defaults(
            scheduler_size=size,
            idle=idle,
            packages=packages,
            accounting=accounting,
            accounts=account_shares,
            qos={name: asdict(each) for name, each in (qos or {}).items()},
        )
        super().__init__(scope, id)
        self._partitions, self._mounts = partitions, mounts_of(mounts)
        for name, each in partitions.items():
            path = "/".join([*self._inside.path, name])
            self._inside.addresses.clusters[path] = (vm_size(each.size), each.node_range.max)
        host, machine = self.azure.name("computer_name_prefix", _NAME), vm_size(spec.scheduler_size)
        # The address must not change: nodes and running jobs know it.
        interface = private_interface(
            self, "slurm-nic", name=_NAME, size=machine, subnet_id=subnet.id
        )
        self.address = interface.private_ip_address
        # The addresses of the login nodes, once they exist.
        self.hosts: list[str] = []
        self.cluster = slurm_cluster(
            self.azure.environment,
            spec,
            partitions,
            host=host,
            address=self.address,
            several_users=accounts is not None,
        )
        self.virtual_machine = server_vm(
            self,
            "slurm-scheduler",
            name=_NAME,
            host_name=host,
            role="slurm-scheduler",
            size=machine,
            interface_id=interface.id,
            cloud_init=scheduler_cloud_init(
                self.cluster,
                scale_sets=scale_sets,
                vault=shared_state.vault_url,
                client_id=shared_state.scheduler.client_id,
                mounts=mounts_of(mounts),
                addresses=subnet.address_pattern,
                proxy=self.azure.proxy,
            ),
            identity_ids=[shared_state.scheduler.id],
            more_tags={SLURM_TAG: self.cluster.packages.version},
            accounts=with_shares(accounts, self.cluster) if accounts else None,
            agent_identity_id=shared_state.scheduler.id if monitored else None,
            depends_on=depends_on,
        )
        wait_for(self.virtual_machine, *subnet.ready, shared_state, *mounts)
        self.id, self.range = self.virtual_machine.id, subnet.range
        attach(self, "slurm-attachment", shared_state.disk.id, to=self.id)

    def partition(self, name: str, *, mounts: Mounts | None = None) -> TakesJobs:
        """Returns the partition as a target of jobs; `mounts` are its nodes', if not all of them.

        >>> Targets(stack, [scheduler.partition("nd")], storage=storage)
        """
        each = look_up(name, self._partitions, "partition")
        found = self._mounts if mounts is None else mounts_of(mounts)
        return _Partition(self, name, each, found, hosts=self.hosts or [self.address])


class SlurmLoginNode(Component):
    """A VM in the nodes' subnet with Slurm's commands and key and the nodes' file systems.

    It has the configuration of `scheduler`, and is replaced when that changes; its address and the
    data on the file systems stay. Its identity is that of the nodes; `managed_identities` are for
    other programs on it.

    >>> node = SlurmLoginNode(stack, "slurm-login-0", size="Standard_D4s_v6",
    ...                       scheduler=scheduler, shared_state=slurm, mounts=[home.mount],
    ...                       subnet=network.subnets["compute"])
    >>> node.address
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        size: str,
        scheduler: SlurmScheduler,
        shared_state: SlurmSharedState,
        subnet: SubnetRef,
        mounts: Mounts,
        monitored: bool = False,
        accounts: Accounts | None = None,
        managed_identities: Sequence[IIdentity] = (),
    ) -> None:
        super().__init__(scope, name)
        azure = self.azure
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
            host_name=azure.name("computer_name_prefix", name),
            role="slurm-login",
            size=machine,
            interface_id=interface.id,
            cloud_init=login_cloud_init(
                scheduler.cluster,
                vault=shared_state.vault_url,
                client_id=shared_state.nodes.client_id,
                mounts=mounts_of(mounts),
                addresses=subnet.address_pattern,
                proxy=azure.proxy,
            ),
            identity_ids=[shared_state.nodes.id, *(each.id for each in managed_identities)],
            accounts=accounts,
            agent_identity_id=shared_state.nodes.id if monitored else None,
        )
        wait_for(self.virtual_machine, *subnet.ready, shared_state, *mounts, *managed_identities)
        self.id = self.virtual_machine.id


class _Partition(TakesJobs):
    """A Slurm partition, which jobs reach by the hosts on which users log in."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        spec: SlurmPartition,
        mounts: Sequence[Mount],
        *,
        hosts: Sequence[str],
    ) -> None:
        shared = folder_of_runs(name, mounts)
        super().__init__(scope, f"partition-{name}")
        access = SlurmAccess(
            host=hosts[0],
            hosts=tuple(hosts) if len(hosts) > 1 else None,
            user=ADMIN_USERNAME,
            partition=name,
            shared=shared,
        )
        self._target = job_facts(
            name,
            "slurm",
            access,
            size=spec.size,
            nodes=spec.node_range,
            spot=spec.spot,
            mounts=mounts,
        )

    def _facts(self) -> dict[str, Any]:
        return self._target


def grant_scaling(
    scope: Construct,
    *,
    principal_id: str,
    scale_sets: Mapping[str, str],
    subnet: SubnetRef,
    identity_id: str,
    images: Mapping[str, str],
    placements: Mapping[str, str],
) -> None:
    """Grants the scheduler a role with these few actions, on each of the resources that they need.

    No built-in role is as narrow. Roles can only be created for the subscription; the first applies
    only to these resources, and the second only reads the result of an operation, in the entire
    subscription, as operations are there. `images` of a gallery and proximity placement groups are
    those that new instances refer to, by the name of a partition.
    """
    azure = azure_scope_of(scope)
    give = partial(assign_role, scope, principal_id=principal_id)
    reason = "The Slurm scheduler starts and deletes nodes"
    scales = custom_role(
        scope,
        "slurm-role",
        description=f"The Slurm scheduler of {azure.environment} starts and deletes nodes",
        actions=(*SCALES, *([PLACES] if placements else ())),
    )
    grants = {f"scales-{name}": (resource, reason) for name, resource in scale_sets.items()}
    grants["joins-subnet"] = (subnet.id, f"{reason}, which stand in this subnet")
    grants["assigns-identity"] = (identity_id, f"{reason}, which have this identity")
    for name, resource in placements.items():
        grants[f"places-{name}"] = (resource, f"{reason}, which stand in this placement group")
    for key, (resource, why) in grants.items():
        give(f"slurm-{key}", on=resource, role_id=scales, why=why)
    operations_role = custom_role(
        scope,
        "slurm-operations-role",
        "operations",
        description=f"The Slurm scheduler of {azure.environment} reads why Azure made no node",
        actions=(READS_OPERATIONS,),
    )
    why = "The Slurm scheduler reads why Azure made no node"
    give("slurm-reads-operations", on=subscription_of(scope), role_id=operations_role, why=why)
    for name, resource in images.items():
        why = f"{reason}, which have this image"
        give(f"slurm-reads-image-{name}", on=resource, role_name="Reader", why=why)
