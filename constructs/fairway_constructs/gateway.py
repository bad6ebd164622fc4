"""A small VM that ssh leads to, for what has a private address and is no VM itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init import server_cloud_init
from fairway_constructs.cloud_init.people import accounts_on_machine
from fairway_constructs.server_vm import private_interface, server_vm
from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.network_access import SubnetRef

# What the machine is called after the environment.
_NAME = "gateway"


class Gateway(Component):
    """A VM through which people's machines reach storage and Batch at their private addresses.

    It has no identity and no file system: who gets in may do there what their own sign-in lets
    them do, and no more. Its address stays where the VM is replaced.

    >>> gateway = Gateway(stack, size="Standard_D2s_v6", subnet=subnet)  # doctest: +SKIP
    >>> gateway.address  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "gateway",  # noqa: A002
        *,
        size: str,
        subnet: SubnetRef,
        accounts: Accounts | None = None,
    ) -> None:
        super().__init__(scope, id)
        place = self.place
        machine = vm_size(size)
        interface = private_interface(
            self, "gateway-nic", name=_NAME, size=machine, subnet_id=subnet.id
        )
        self.address = interface.private_ip_address
        self.virtual_machine = server_vm(
            self,
            "gateway",
            name=place.name("linux_virtual_machine", _NAME),
            role="gateway",
            size=machine,
            interface_id=interface.id,
            cloud_init=server_cloud_init(place.proxy) if place.proxy else None,
        )
        if accounts is not None:
            accounts_on_machine(
                self, "gateway", accounts, virtual_machine_id=self.virtual_machine.id
            )
