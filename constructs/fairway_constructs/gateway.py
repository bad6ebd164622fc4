"""A small VM that ssh leads to, for what has a private address and is no VM itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.cloud_init import server_cloud_init
from fairway_constructs.server_vm import private_interface, server_vm
from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.people import Accounts

# What the machine is called after the environment.
_NAME = "gateway"


class Gateway(Component):
    """A VM through which people's machines reach storage and Batch at their private addresses.

    It has no identity and no file system: who gets in may do there what their own sign-in lets
    them do, and no more. Its address stays where the VM is replaced.

    >>> gateway = Gateway(stack, size="Standard_D2s_v6", subnet_id=subnet.id,
    ...                   ssh_keys=["ssh-ed25519 AAAA…"])  # doctest: +SKIP
    >>> gateway.address  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "gateway",  # noqa: A002
        *,
        size: str,
        subnet_id: str,
        ssh_keys: Sequence[str],
        accounts: Accounts | None = None,
    ) -> None:
        super().__init__(scope, id)
        place = self.place
        machine = vm_size(size)
        interface = private_interface(
            self, "gateway-nic", name=_NAME, size=machine, subnet_id=subnet_id
        )
        self.address = interface.private_ip_address
        self.virtual_machine = server_vm(
            self,
            "gateway",
            name=place.name("linux_virtual_machine", _NAME),
            role="gateway",
            size=machine,
            interface_id=interface.id,
            ssh_keys=ssh_keys,
            cloud_init=server_cloud_init(place.proxy) if place.proxy else None,
        )
        if accounts is not None:
            from fairway_constructs.cloud_init.people import accounts_on_machine

            accounts_on_machine(
                self,
                "gateway",
                accounts,
                virtual_machine_id=self.virtual_machine.id,
                tags=place.tags,
            )
