"""Slurm in the compute stack: partitions, and one scheduler for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fairway_constructs as az
from fairway_constructs.cloud_init.web import CALLBACK, WebPage
from fairway_constructs.clusters.slurm.scheduler import grant_scaling
from fairway_constructs.researchers import serve_page
from fairway_constructs.scope import id_in_group
from fairway_core.environment.filesystems.home_directories import home_directories
from fairway_core.environment.filesystems.rules import scheduler_mounts
from fairway_core.slurm import Qos
from fairway_stacks.boot_data import accounts_of, slurm_node, slurm_partitions
from fairway_stacks.compute import MachineClusters
from fairway_stacks.stack import referenced_ids

if TYPE_CHECKING:
    from fairway_constructs.clusters.nodes import NodeSpec
    from fairway_constructs.clusters.slurm.shared_state import SlurmSharedState
    from fairway_constructs.identity import Identity
    from fairway_core.environment import SlurmNodes
    from fairway_stacks.compute import ComputeStack

_SCALE_SETS = "Microsoft.Compute/virtualMachineScaleSets"
# The engines whose targets the page can reach: by a user's account, and by its identity.
_SERVED = ("slurm", "batch")


class Clusters(MachineClusters):
    """The scheduler of an environment, and its partitions, which are created one by one afterwards.

    The scheduler comes first, so that nodes know its address; it knows their scale sets by name,
    and gets its role on them once all exist.
    """

    def __init__(self, stack: ComputeStack) -> None:
        super().__init__(stack)
        environment, data = stack.environment, stack.data
        spec, shared_state = environment.scheduler, data.slurm
        assert spec is not None, "an environment with partitions has a scheduler"
        assert shared_state is not None
        self._subnet = stack.network.subnets["compute"]
        self._shared_state: SlurmSharedState = shared_state
        self._scale_sets: dict[str, str] = {}
        self._partitions = environment.partitions
        self._people_vault = data.vault.url if data.vault else ""
        self._filesystems = list(scheduler_mounts(environment.filesystems, environment.clusters))
        mounts = data.mounts(self._filesystems)
        accounts = accounts_of(environment, self._filesystems, fenced=True)
        self.scheduler = az.SlurmScheduler(
            stack,
            size=spec.scheduler_size,
            idle=spec.idle,
            packages=spec.packages,
            accounting=spec.accounting,
            account_shares=spec.accounts,
            qos={name: Qos(**dict(each)) for name, each in spec.qos.items()},
            partitions=slurm_partitions(self._partitions),
            # These are created after the scheduler.
            scale_sets={
                name: id_in_group(
                    stack, _SCALE_SETS, stack.azure.name("linux_virtual_machine_scale_set", name)
                )
                for name in self._partitions
            },
            shared_state=shared_state,
            subnet=self._subnet,
            mounts=mounts,
            monitored=data.monitoring is not None,
            accounts=accounts.without_login() if accounts and spec.login else accounts,
        )
        self.login = [
            az.SlurmLoginNode(
                stack,
                f"slurm-login-{number}",
                size=size,
                scheduler=self.scheduler,
                shared_state=shared_state,
                subnet=self._subnet,
                mounts=mounts,
                monitored=data.monitoring is not None,
                accounts=accounts,
                managed_identities=[data.page] if data.page and number == 0 else (),
            )
            for number, size in enumerate(spec.login.sizes if spec.login else ())
        ]
        ids = [self.scheduler.id, *(each.id for each in self.login)]
        for name, machine_id in zip(spec.vms, ids, strict=True):
            stack.collect_metrics(name, machine_id)
        # The host for logins and Fairway's submissions.
        host = self.login[0].address if self.login else self.scheduler.address
        stack.gateway_host = stack.gateway_host or host

    def _serve_page(self, page: Identity) -> None:
        """Installs the page on the first login node, for the targets that it can reach: it has no
        key for other clusters."""
        environment, node = self.stack.environment, self.login[0]
        web = environment.web
        assert web is not None
        vault = web.vault.rpartition("/")[2].lower()
        spec = WebPage(
            url=web.url,
            tenant=web.tenant,
            client_id=web.client_id,
            vault_url=f"https://{vault}.vault.azure.net/",
            certificate=web.certificate,
            secret=web.client_secret,
            identity=page.client_id,
            account=web.account,
            homes=home_directories(
                environment.filesystems, environment.clusters, self._filesystems
            ),
            package=web.package,
            targets=[each for each in self.stack.targets.values() if each.engine in _SERVED],
        )
        serve_page(self.stack, spec, virtual_machine_id=node.id)
        self.stack.publish(
            "web",
            {"url": web.url, "address": node.address, "redirect_uri": f"{web.url}{CALLBACK}"},
            "Web page: DNS target, and redirect URI for the app registration",
        )

    def machines(self, name: str, spec: SlurmNodes, nodes: NodeSpec) -> az.ScaleSetCluster:
        """Creates the scale set of a partition, without instances: the scheduler creates those.

        `nodes` are the same as of any cluster of the environment, except for their identity.
        """
        cluster = az.ScaleSetCluster(
            self.stack,
            name,
            **nodes.of_scale_set(),
            identity=self._shared_state.nodes,
            nodes=0,
            externally_scaled=True,
            slurm=slurm_node(
                self.stack.environment,
                name,
                nodes.mounts,
                scheduler=self.scheduler.address,
                vault=self._shared_state.vault_url,
                client_id=self._shared_state.nodes.client_id,
                people_vault=self._people_vault,
            ),
        )
        self._scale_sets[name] = cluster.id
        return cluster

    def taker(self, cluster: az.TakesJobs, name: str, nodes: NodeSpec) -> az.TakesJobs:
        """Returns the partition, whose jobs come to the scheduler."""
        return self.scheduler.partition(name, mounts=nodes.mounts)

    def finish(self) -> None:
        """Grants the scheduler its role on every partition, and installs the page."""
        grant_scaling(
            self.stack,
            principal_id=self._shared_state.scheduler.principal_id,
            scale_sets=self._scale_sets,
            subnet=self._subnet,
            identity_id=self._shared_state.nodes.id,
            images=referenced_ids(self._partitions, "image_id"),
            placements=referenced_ids(self._partitions, "proximity_placement_group"),
        )
        if page := self.stack.data.page:
            self._serve_page(page)
