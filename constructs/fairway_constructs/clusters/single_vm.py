"""A single VM with GPUs: a persistent disk and address, and sign-in with Entra ID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm import linux_virtual_machine as vm
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import wait_for
from fairway_constructs.cloud_init import custom_data
from fairway_constructs.clusters.nodes import NodeSpec, check_image, cloud_init_of, node_arguments
from fairway_constructs.extensions import LOGIN, add_to_vm, equip
from fairway_constructs.server_vm import private_interface
from fairway_constructs.targets import TakesJobs, node_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import Mounts
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.identity import IIdentity
    from fairway_constructs.network_access import SubnetRef
    from fairway_core.catalog import Image, VmSize
    from fairway_core.environment import Spot
    from fairway_core.environment.clusters.ssh import Idle
    from fairway_core.fields import Count
    from fairway_core.resource_ids import (
        CapacityReservationId,
        ImageVersionId,
        ObjectId,
        PlacementGroupId,
    )


def enable_entra_login(
    scope: Construct, name: str, people: Mapping[str, bool], *, virtual_machine_id: str
) -> None:
    """Lets users sign in to one VM, which needs its own identity (SystemAssigned) for that.

    `people` are object ids, each with whether the user may use sudo.
    """
    add_to_vm(scope, f"{name}-entra-login", LOGIN, virtual_machine_id=virtual_machine_id)
    for person, is_admin in people.items():
        kind = "Administrator" if is_admin else "User"
        RoleAssignment(
            scope,
            f"{name}-signed-in-to-by-{person}",
            scope_=virtual_machine_id,
            role_definition_name=f"Virtual Machine {kind} Login",
            principal_id=person,
            description="Signs in by Entra ID; named under access.users",
        )


class SingleVm(TakesJobs):
    """A VM with the image, mounts, identity and boot of a cluster's node, and no public address.

    Its private address belongs to a separate network interface, and its system disk is a managed
    one: both survive a stop overnight. With `local_os_disk` the disk is on the VM itself, which can
    then not be stopped without losing it. Either way the VM is replaced when its image, keys or
    mounts change: data that must survive belongs on a mount. The VM may use the reserved capacity
    of `capacity_reservation_group_id`. `signed_in` are the object ids of users who sign in with
    Entra ID, and whether they may use sudo. Everything else is as in a `ScaleSetCluster`.

    Raises UserError for an image that does not fit the size, and for a system disk that does not
    fit the VM.

    >>> box = SingleVm(stack, "box", size="Standard_NC24ads_A100_v4",
    ...                image="ubuntu-hpc-2404", subnet=network.subnet("compute"),
    ...                identity=identity)
    >>> box.main_host
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
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
        capacity_reservation_group_id: CapacityReservationId | None = None,
        monitored: bool = False,
        accounts: Accounts | None = None,
        signed_in: Mapping[ObjectId, bool] | None = None,
        idle: Idle | None = None,
    ) -> None:
        spec = NodeSpec.of(locals())
        super().__init__(scope, f"cluster-{name}")
        check_image(name, spec)
        self._name, self._spec, self.identity = name, spec, identity
        azure = self.azure
        interface = private_interface(
            self, f"interface-{name}", name=name, size=spec.size, subnet_id=spec.subnet.id
        )
        host_name = azure.name("computer_name_prefix", name)
        self.virtual_machine = vm.LinuxVirtualMachine(
            self,
            f"cluster-{name}",
            name=azure.name("linux_virtual_machine", name),
            computer_name=host_name,
            **azure.common_of("cluster", name),
            zone=azure.zone_text,
            size=spec.size.name,
            network_interface_ids=[interface.id],
            capacity_reservation_group_id=spec.capacity_reservation_group_id,
            identity=vm.Identity(
                type="SystemAssigned, UserAssigned" if spec.signed_in else "UserAssigned",
                identity_ids=[identity.id],
            ),
            custom_data=custom_data(
                cloud_init_of(
                    name,
                    spec,
                    host_patterns=[host_name],
                    single=True,
                    identity_id=identity.id,
                    proxy=azure.proxy,
                )
            ),
            **node_arguments(self, vm, name, spec, local=spec.local_os_disk),
        )
        wait_for(self.virtual_machine, *subnet.ready, identity, *mounts)
        self.id, self.range = self.virtual_machine.id, spec.subnet.range
        self.main_host = interface.private_ip_address
        self.other_hosts: list[str] = []

        if spec.signed_in:
            enable_entra_login(self, name, spec.signed_in, virtual_machine_id=self.id)
        equip(
            self,
            f"machine-{name}",
            virtual_machine_id=self.id,
            accounts=spec.accounts,
            agent_identity_id=identity.id if spec.monitored else None,
        )

    def _facts(self) -> dict[str, Any]:
        return node_facts(self._name, self._spec, self.id, [self.main_host])
