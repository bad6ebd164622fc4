"""A pool of Azure Batch: nodes of one size, on which multi-node jobs work by construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import batch_pool as batch
from fairway_constructs.cdk import Lifecycle, wait_for
from fairway_constructs.cloud_init import node_cloud_init
from fairway_constructs.cloud_init.mounts import mounts_of
from fairway_constructs.cloud_init.start_task import start_task_command
from fairway_constructs.clusters.nodes import reword_errors, rows
from fairway_constructs.targets import TakesJobs, job_facts
from fairway_constructs.terraform_data import TerraformData, escape_template
from fairway_core.autoscale import PoolShape, iso_duration, scale_formula
from fairway_core.documents import FieldError
from fairway_core.environment.clusters.batch.pool import pool_image
from fairway_core.environment.clusters.node_rules import (
    check_image,
    check_mix,
    check_pool_nodes,
    check_slots,
)
from fairway_core.target import BatchAccess, NodeRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy, Mount, Mounts
    from fairway_constructs.clusters.batch.account import IBatchAccount
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.autoscale import Autoscale
    from fairway_core.catalog import Image, VmSize
    from fairway_core.fields import Count, Number
    from fairway_core.resource_ids import ImageVersionId

# Long enough for large VMs, which start slowly; then Batch reports the missing ones.
_RESIZE_TIMEOUT = "PT30M"

# Package mirrors and a file server that has just started may need a second attempt.
_START_TASK_RETRIES = 3


@checked
@dataclass(frozen=True, kw_only=True)
class Containers:
    """The containers of a pool whose every task must name one: Batch takes no others on it.

    `images` are pulled before a node gets its first task. `registries` are the servers, such as
    "team.azurecr.io", at which the nodes use their identity; it needs the role AcrPull there.

    >>> Containers(images=["team.azurecr.io/train:1"], registries=["team.azurecr.io"])
    """

    images: Sequence[str] = ()
    registries: Sequence[str] = ()


class BatchPool(TakesJobs):
    """A pool whose nodes are all dedicated or all Spot, without public addresses.

    With `mpi` its nodes communicate with each other and run one task each, packed close together,
    as multi-instance tasks require: without that such a task would wait forever. Only without `mpi`
    may a formula request dedicated and Spot nodes side by side, and a node have several
    `task_slots`, of which tasks take one or more.

    `autoscale` says how the number of nodes follows the work, between `minimum` and `maximum`;
    without it there are `minimum` nodes, and with `resized_by_hand` Terraform ignores changes of
    their number. A changed formula is updated in place; most other attributes are fixed at
    creation, and changing them replaces the pool.

    File systems are mounted by the start task and not by the pool's own `mount` blocks: so each has
    the same path on every engine, with the client options of `cloud_init/node.sh`, and a failure
    can be read in the start task's stderr.txt.

    `image_id` is a gallery image that was made from `image`, and is used in its place. The pool is
    created after the resources that its subnet needs, its file systems and roles, and `depends_on`.

    Raises UserError for more nodes than such a pool holds, for an image without drivers for that
    size, for a mount at /home, and if `mpi` excludes the slots or the formula.

    >>> BatchPool(stack, "spot", account=account, subnet=subnet,
    ...           identity=identity, size="Standard_ND96asr_v4",
    ...           image="ubuntu-hpc-2404", minimum=0, maximum=8, spot=True,
    ...           autoscale=Autoscale(scenario="pending_tasks"))
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        account: IBatchAccount,
        subnet: SubnetRef,
        identity: IIdentity,
        size: VmSize | str,
        image: Image | str,
        image_id: ImageVersionId | None = None,
        minimum: Number,
        maximum: Number,
        spot: bool = False,
        mpi: bool = True,
        task_slots: Count = 1,
        autoscale: Autoscale | None = None,
        resized_by_hand: bool = False,
        mounts: Mounts = (),
        containers: Containers | None = None,
        depends_on: Sequence[Construct] = (),
    ) -> None:
        super().__init__(scope, f"cluster-{name}")
        azure, (size, image) = self.azure, rows(size, image)
        shape = PoolShape(
            minimum=minimum, maximum=maximum, spot=spot, mpi=mpi, task_slots=task_slots
        )
        with reword_errors(f"pool `{name}`"):
            self._nodes = NodeRange(min=minimum, max=maximum)
            check_pool_nodes(shape, account.mode)
            check_slots(shape, size)
            check_mix(shape, autoscale)
            if any(each.path == "/home" for each in mounts_of(mounts)):
                message = "a pool cannot mount `/home`: Batch keeps its own users there"
                raise FieldError(message, "mount it elsewhere, for example at /data")
            check_image(size, image, own=image_id is not None, usual=pool_image)
        self._name, self._account, self.identity = name, account, identity
        self._shape, self._size, self._mounts = shape, size, mounts_of(mounts)
        self._joins(size, maximum if mpi else 1)
        # The provider neither sends a change of these attributes nor replaces the pool for it.
        fixed = {
            "inter_node_communication": "Enabled" if mpi else "Disabled",
            "public_address_provisioning_type": "NoPublicIPAddresses",
            "container_type": "DockerCompatible" if containers else "",
        }
        marker = TerraformData(self, f"fixed-{name}", input=fixed)
        self.name, self.range = azure.name("batch_pool", name), subnet.range
        self.pool = batch.BatchPool(
            self,
            f"cluster-{name}",
            name=self.name,
            account_name=account.name,
            resource_group_name=account.resource_group,
            vm_size=size.name,
            node_agent_sku_id=image.node_agent,
            storage_image_reference=batch.StorageImageReference(
                **({"id": image_id} if image_id else image.urn_parts)
            ),
            inter_node_communication=fixed["inter_node_communication"],
            target_node_communication_mode="Simplified",
            max_tasks_per_node=task_slots,
            task_scheduling_policy=[batch.TaskSchedulingPolicy(node_fill_type="Pack")],
            network_configuration=batch.NetworkConfiguration(
                subnet_id=subnet.id,
                public_address_provisioning_type=fixed["public_address_provisioning_type"],
                accelerated_networking_enabled=size.accelerated_networking,
            ),
            identity=batch.Identity(type="UserAssigned", identity_ids=[identity.id]),
            container_configuration=_container_configuration(containers, identity.id),
            start_task=_start_task(name, self._mounts, image, subnet, identity.id, azure.proxy),
            metadata=azure.labelled("cluster", name),
            **_scale(shape, autoscale),
            lifecycle=Lifecycle(
                replace_triggered_by=[marker],
                ignore_changes=["fixed_scale"] if resized_by_hand else (),
            ),
        )
        wait_for(self.pool, *subnet.ready, identity, *mounts)
        for each in depends_on:
            self.pool.node.add_dependency(each)

    def _facts(self) -> dict[str, Any]:
        shape = self._shape
        access = BatchAccess(
            endpoint=self._account.endpoint,
            pool=self.name,
            identity=self.identity.id,
            mpi=shape.mpi,
            task_slots=shape.task_slots if shape.task_slots > 1 else None,
        )
        return job_facts(
            self._name,
            "batch",
            access,
            size=self._size.text,
            nodes=self._nodes,
            spot=shape.spot,
            mounts=self._mounts,
        )


def _scale(shape: PoolShape, autoscale: Autoscale | None) -> dict[str, Any]:
    """Returns the block for the number of nodes: automatic or fixed."""
    if autoscale is not None:
        return {
            "auto_scale": batch.AutoScale(
                formula=escape_template(scale_formula(autoscale, shape)),
                evaluation_interval=iso_duration(autoscale.every),
            )
        }
    return {
        "fixed_scale": batch.FixedScale(
            target_dedicated_nodes=0 if shape.spot else shape.minimum,
            target_low_priority_nodes=shape.minimum if shape.spot else 0,
            resize_timeout=_RESIZE_TIMEOUT,
            node_deallocation_method="TaskCompletion",
        )
    }


def _start_task(
    name: str,
    mounts: Sequence[Mount],
    image: Image,
    subnet: SubnetRef,
    identity_id: str,
    proxy: MachineProxy | None,
) -> batch.StartTask:
    """Returns the start task, which mounts and installs as root; nodes get no job if it fails."""
    cloud_config = node_cloud_init(
        cluster=name,
        mounts=mounts,
        nfs_client_package=image.nfs_client_package,
        host_patterns=[subnet.address_pattern],
        peers=False,
        # Nodes of a pool may also have identities that Azure assigned.
        identity=identity_id if any(each.type == "blobs" for each in mounts) else "",
        proxy=proxy,
    )
    return batch.StartTask(
        command_line=start_task_command(cloud_config),
        wait_for_success=True,
        task_retry_maximum=_START_TASK_RETRIES,
        user_identity=batch.StartTaskUserIdentity(
            auto_user=batch.StartTaskUserIdentityAutoUser(elevation_level="Admin", scope="Pool")
        ),
    )


def _container_configuration(
    containers: Containers | None, identity_id: str
) -> batch.ContainerConfiguration | None:
    if containers is None:
        return None
    return batch.ContainerConfiguration(
        type="DockerCompatible",
        container_image_names=list(containers.images) or None,
        container_registries=[
            batch.ContainerConfigurationContainerRegistries(
                registry_server=server, user_assigned_identity_id=identity_id
            )
            for server in containers.registries
        ]
        or None,
    )
