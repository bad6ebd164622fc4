"""The part of Azure behind cloud nodes: one scale set, the metadata service of each machine, and
the vault with the cluster's key.

All are those of `fairway_simulator.azure`. The scheduler and the nodes have only the rights that
the stacks of an environment grant. The program that starts it defines what an instance is.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.roles import Permission
from fairway_core.slurm.cluster import READS_OPERATIONS, SCALES
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.additions import id_for
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.rights import Assignment, Rights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SUBSCRIPTION = f"/subscriptions/{NOBODY}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/cloud"
ID = f"{_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/cloud"
_SCHEDULER = f"{_GROUP}/providers/Microsoft.Compute/virtualMachines/scheduler"
_SUBNET = f"{_GROUP}/providers/Microsoft.Network/virtualNetworks/cloud/subnets/compute"
_VAULT = f"{_GROUP}/providers/Microsoft.KeyVault/vaults/cloud"
_IDENTITIES = f"{_GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities"
_OF_SCHEDULER, _OF_NODES = f"{_IDENTITIES}/scheduler", f"{_IDENTITIES}/nodes"
_KEY = "0" * 64  # protects nothing
_SECRETS = "Microsoft.KeyVault/vaults/secrets"


class ScaleSet:
    """The scale set with at most `room` instances, by their numbers; `start` and `delete` are
    called with one that comes or goes. It answers between `serve` and `stop`."""

    def __init__(
        self,
        folder: Path,
        room: int,
        start: Callable[[str], None],
        delete: Callable[[str], None],
    ) -> None:
        self.plane = plane = ControlPlane(folder)
        self._start, self._delete = start, delete
        self._serving = ExitStack()
        self._machines: dict[str, MetadataService] = {}
        self._scheduler = MetadataService(plane.store, _SCHEDULER)
        plane.compute.room = room
        plane.compute.on_make = lambda _, number: self._come(str(number))
        plane.compute.on_delete = lambda _, number: self._go(str(number))
        for id_, body in _resources():
            plane.store.put(ResourcePath(id_), body)
        plane.vaults.secrets[ResourcePath("/vaults/cloud/secrets/munge-key").key] = _KEY
        plane.rights = _rights()

    @property
    def instances(self) -> list[str]:
        listed = self.plane.compute.instances_in(ResourcePath(f"{ID}/virtualMachines"))
        return [str(each["instanceId"]) for each in listed]

    @property
    def capacity(self) -> int:
        """Requested number of instances."""
        found = self.plane.store.get(ResourcePath(ID)) or {}
        return int(found["sku"]["capacity"])

    def settings(self) -> dict[str, str]:
        """Returns URLs of Azure for the scheduler's programs, or for those of a node, which is
        another machine."""
        return {
            "arm": f"https://{self.plane.host}",
            "vault": f"https://{self.plane.host}/vaults/cloud/",
            "authority": str(self.plane.authority),
            "metadata": self._scheduler.url,
        }

    def machine(self, instance: str) -> MetadataService:
        return self._machines[instance]

    def serve(self) -> None:
        """Answers until `stop`."""
        self._serving.enter_context(self.plane)
        self._serving.enter_context(self._scheduler)

    def stop(self) -> None:
        """Stops answering; instances stay, without Azure."""
        self._serving.close()
        for machine in self._machines.values():
            machine.__exit__(None, None, None)
        self._machines.clear()

    def _come(self, instance: str) -> None:
        machine = MetadataService(self.plane.store, f"{ID}/virtualMachines/{instance}")
        self._machines[instance] = machine.__enter__()
        self._start(instance)

    def _go(self, instance: str) -> None:
        self._delete(instance)
        if machine := self._machines.pop(instance, None):
            machine.__exit__(None, None, None)


def _resources() -> list[tuple[str, dict[str, Any]]]:
    """Returns the resources that exist from the start, with the fields that anything asks for."""
    subnet = {"properties": {"subnet": {"id": _SUBNET}}}
    interface = {"properties": {"ipConfigurations": [subnet]}}
    network = {"networkInterfaceConfigurations": [interface]}
    scale_set = {
        "location": "loopback",
        "sku": {"name": "Standard_HB176rs_v4", "tier": "Standard", "capacity": 0},
        "properties": {"virtualMachineProfile": {"networkProfile": network}},
    }
    return [
        (_SUBNET, {"properties": {"addressPrefixes": ["10.40.0.0/24"]}}),
        (_VAULT, {}),
        (_SCHEDULER, {"properties": {}, "identity": _identity(_OF_SCHEDULER)}),
        (ID, {**scale_set, "identity": _identity(_OF_NODES)}),
    ]


def _identity(id_: str) -> dict[str, Any]:
    return {"type": "UserAssigned", "userAssignedIdentities": {id_: None}}


def _rights() -> Rights:
    """Returns the roles that an environment's stacks assign."""
    scheduler, nodes = (id_for(each.lower()) for each in (_OF_SCHEDULER, _OF_NODES))
    scales = Permission(SCALES)
    reads = Permission((), data_actions=(f"{_SECRETS}/getSecret/action",))
    writes = Permission((), data_actions=(f"{_SECRETS}/*",))
    return Rights(
        (
            Assignment("scales", scheduler, ID, scales),
            Assignment("joins-subnet", scheduler, _SUBNET, scales),
            Assignment("assigns-identity", scheduler, _OF_NODES, scales),
            Assignment("told", scheduler, _SUBSCRIPTION, Permission((READS_OPERATIONS,))),
            Assignment("writes-key", scheduler, _VAULT, writes),
            Assignment("reads-key", nodes, _VAULT, reads),
        )
    )
