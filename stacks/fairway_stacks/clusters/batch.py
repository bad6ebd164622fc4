"""Pools of Azure Batch in the compute stack; their account is in the data stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_core.catalog import vm_size
from fairway_stacks.boot_data import folders_of
from fairway_stacks.compute import EngineClusters

if TYPE_CHECKING:
    from fairway_core.environment import BatchCluster
    from fairway_core.target import Target


class Clusters(EngineClusters):
    """The pools, which a cluster of another engine may be the gateway to."""

    def create(self, name: str, spec: BatchCluster) -> Target:
        """Creates a pool."""
        stack = self.stack
        account, registry = stack.data.batch, stack.data.registry
        assert account is not None, "an environment with pools has an account"
        containers = az.Containers(
            images=spec.pulled_images, registries=[registry.login_server] if registry else []
        )
        pool = az.BatchPool(
            stack,
            name,
            account=account,
            subnet=stack.network.subnets["compute"],
            identity=stack.identity,
            size=vm_size(spec.size),
            image=spec.chosen_image,
            image_id=spec.image_id,
            minimum=spec.node_range.min,
            maximum=spec.node_range.max,
            spot=spec.spot,
            mpi=spec.mpi,
            task_slots=spec.task_slots,
            autoscale=spec.autoscaling,
            resized_by_hand=spec.resized_by_hand,
            mounts=stack.data.mounts(spec.mounts),
            containers=containers if spec.runs_containers else None,
        )
        hosts = (each.access.host for each in stack.targets.values() if each.access)
        users = folders_of(stack.environment, None)
        return stack.target(pool, gateway=stack.gateway(next(hosts, "")), users=users)
