"""A complete cluster for jobs: nodes, their identity, their mounts, and their dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.cloud_init import ADMIN_USERNAME
from fairway_constructs.clusters.scale_set_cluster import ScaleSetCluster
from fairway_constructs.clusters.single_vm import SingleVm
from fairway_constructs.identity import Identity, IIdentity
from fairway_constructs.targets import TakesJobs
from fairway_core.findings import UserError
from fairway_core.target import Gateway

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mounts
    from fairway_constructs.network import INetwork
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Repair, Spot
    from fairway_core.environment.clusters.node_rules import ScaleSetNodes
    from fairway_core.fields import Count


class Cluster(TakesJobs):
    """Nodes of one size to which jobs come over SSH: a scale set, or a VM for a single node.

    They are in the compute subnet of `network`, or in `subnet`, have by default the image that fits
    their size, and mount the file systems `mounts`, the first of which holds runs. By default they
    have an `identity` of their own, to which `grant_…` methods give roles. Nodes are created after
    the rules and the egress of their subnet, their file systems and their roles. `spot` makes them
    Spot nodes; with `repair` Azure repairs unhealthy ones. More settings are arguments of
    `ScaleSetCluster` or `SingleVm`.

    >>> h100 = Cluster(stack, "h100", size="Standard_ND96isr_H100_v5", nodes=2, network=network,
    ...                mounts=[home])
    >>> storage.grant_read_write(h100)
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        size: VmSize | str,
        nodes: ScaleSetNodes = 1,
        network: INetwork | None = None,
        subnet: SubnetRef | None = None,
        image: Image | str | None = None,
        mounts: Mounts = (),
        identity: IIdentity | None = None,
        spot: Spot | None = None,
        repair: Repair | None = None,
        os_gib: Count | None = None,
        monitored: bool = False,
    ) -> None:
        super().__init__(scope, name)
        if subnet is None and network is None:
            raise UserError.of(
                "no-subnet",
                f"cluster `{name}` has no network",
                "pass `network=`, or `subnet=`",
            )
        self.identity: IIdentity = identity or Identity(self, name)
        self._is_private = network is not None and network.endpoints is not None
        subnet = subnet or network.subnet("compute")  # type: ignore[union-attr]  # see above
        props: dict[str, Any] = {
            "size": size,
            "image": image,
            "subnet": subnet,
            "identity": self.identity,
            "mounts": mounts,
            "spot": spot,
            "os_gib": os_gib,
            "monitored": monitored,
        }
        self.machines: ScaleSetCluster | SingleVm
        if nodes == 1 and repair is None:
            self.machines = SingleVm(self, name, **props)
        else:
            self.machines = ScaleSetCluster(self, name, nodes=nodes, repair=repair, **props)
        self.range = subnet.range

    @property
    def id(self) -> str:
        """The resource id of its scale set or VM."""
        return self.machines.id

    @property
    def main_host(self) -> str:
        """The address of the first node."""
        return self.machines.main_host

    def _facts(self) -> dict[str, Any]:
        return self.machines._facts()

    def _gateway(self) -> Gateway | None:
        return Gateway(host=self.main_host, user=ADMIN_USERNAME) if self._is_private else None
