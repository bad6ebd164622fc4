"""Targets of jobs: an output about clusters that `fairway targets sync` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.cdk import Component, Output, context_of
from fairway_constructs.cloud_init import ADMIN_USERNAME, LOCAL_FOLDER, shared_folder
from fairway_constructs.clusters.nodes import keeps_disk
from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_core.target import Gateway as GatewayHost
from fairway_core.target import NodeRange, SshAccess, StorageAccount, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.bastion import Gateway
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.clusters.nodes import NodeSpec
    from fairway_constructs.storage import IStorage
    from fairway_constructs.vault import IVault
    from fairway_core.catalog import VmSize
    from fairway_core.light_models import LightModel
    from fairway_core.target import Engine, SshRoute


class TakesJobs(Component):
    """A construct to which jobs come, such as a `Cluster`.

    >>> Targets(stack, [h100], storage=storage)
    """

    def target(
        self,
        *,
        storage: StorageAccount | None = None,
        vault_url: str = "",
        gateway: GatewayHost | None = None,
        ssh_route: SshRoute | None = None,
        users: Mapping[str, str] | None = None,
    ) -> Target:
        """Returns the facts about the cluster that jobs need; see `Targets`."""
        azure = self.azure
        return Target(
            environment=azure.environment,
            region=azure.location,
            storage=storage,
            vault_url=vault_url,
            gateway=gateway or self._gateway(),
            ssh_route=ssh_route,
            users=None if users is None else dict(users),
            **self._facts(),
        )

    def _joins(self, size: VmSize, nodes: int) -> None:
        """Records for the stack's checks how many nodes one job may have."""
        self._inside.addresses.clusters["/".join(self._inside.path)] = (size, nodes)

    def _facts(self) -> dict[str, Any]:
        """Returns the facts of the construct's target, except those common to a stack."""
        raise NotImplementedError

    def _gateway(self) -> GatewayHost | None:
        """Returns the host that leads to services closed to users' machines, if there is one."""
        return None


class Targets(Component):
    """The output `targets` of a stack: how jobs reach its clusters, and what they find there.

    `storage` is where jobs stage their inputs and outputs, and `vault` has their secrets; grant the
    clusters roles on both. For jobs on a `BatchPool` it has the containers `outputs` and `code`. If
    storage and vault have no public access, users' machines reach them through `gateway`, or the
    first node of a `Cluster`.

    >>> Targets(stack, [h100], storage=storage)
    """

    def __init__(
        self,
        scope: Construct,
        clusters: Sequence[TakesJobs | Target],
        *,
        storage: IStorage | None = None,
        vault: IVault | None = None,
        gateway: Gateway | None = None,
    ) -> None:
        if not clusters:
            message = "jobs would have nowhere to run"
            raise FieldError(message, "name a cluster, or leave `Targets` out", ("clusters",))
        stack = context_of(scope).stack
        if stack.node.try_find_child("targets"):
            message = f"the stack `{stack.node.id}` has an output `targets` already"
            raise UserError.of("id-taken", message, "name all of its clusters in one `Targets`")
        super().__init__(scope, "job-targets")
        account = storage_of(storage) if storage else None
        url = vault.url if vault else ""
        through = GatewayHost(host=gateway.address, user=ADMIN_USERNAME) if gateway else None
        self.targets = [
            each
            if isinstance(each, Target)
            else each.target(storage=account, vault_url=url, gateway=through)
            for each in clusters
        ]
        self._check_names()
        self._output = Output(
            stack,
            "targets",
            value=self._records(),
            description="Job targets, read by `fairway targets sync`",
            static_id=True,
        )

    def add(self, target: Target) -> None:
        """Adds a target to the output. Raises UserError if another one has its name."""
        self.targets.append(target)
        try:
            self._check_names()
        except FieldError as error:
            raise UserError.of("id-taken", str(error), error.hint) from None
        self._output.value = self._records()

    def _check_names(self) -> None:
        names = [each.name for each in self.targets]
        if twice := next((each for each in names if names.count(each) > 1), ""):
            message = f"two targets are called `{twice}`"
            raise FieldError(message, "name each cluster once, by a name of its own", ("clusters",))

    def _records(self) -> list[dict[str, Any]]:
        return [each.record() for each in self.targets]


def storage_of(storage: IStorage) -> StorageAccount:
    """Returns the account in the form that jobs use."""
    return StorageAccount(account_url=storage.account_url, containers=tuple(storage.containers))


def folder_of_runs(name: str, mounts: Sequence[Mount]) -> str:
    """Returns the folder of runs, which all nodes see. Raises UserError if they mount none."""
    folder = shared_folder(mounts)
    if not folder:
        raise UserError.of(
            "no-target",
            f"no job can run on `{name}`: nodes that run jobs together need a folder that all of "
            "them see",
            "pass `mounts=` with a file system, for example an `az.NfsServer`",
        )
    return folder


def node_facts(
    name: str, spec: NodeSpec, resource_id: str, hosts: Sequence[str], nodes: int | None = None
) -> dict[str, Any]:
    """Returns the target of a scale set or a VM, whose first host jobs reach by SSH."""
    if len(hosts) > 1:
        shared = folder_of_runs(name, spec.mounts)
    else:
        shared = shared_folder(spec.mounts) or LOCAL_FOLDER
    keeps_disks = keeps_disk(spec, single=nodes is None)
    queue = spec.accounts.queue if spec.accounts else None
    access = SshAccess(
        host=hosts[0],
        user=ADMIN_USERNAME,
        shared=shared,
        others=tuple(hosts[1:]),
        # A stopped node loses a local system disk.
        machines=resource_id if keeps_disks else "",
        queue=queue.folder if queue else None,
    )
    return job_facts(
        name,
        "ssh",
        access,
        size=spec.size.text,
        nodes=NodeRange.of(nodes or 1),
        spot=spec.spot is not None,
        mounts=spec.mounts,
    )


def job_facts(
    name: str,
    engine: Engine,
    access: LightModel,
    *,
    size: str,
    nodes: NodeRange,
    spot: bool,
    mounts: Sequence[Mount],
) -> dict[str, Any]:
    """Returns a target's facts except those common to a stack; `access` is its engine's section."""
    return {
        "name": name,
        "engine": engine,
        "vm_size": size,
        "nodes": nodes,
        "spot": spot,
        "mounts": {mount.name: mount.path for mount in mounts},
        engine: access,
    }
