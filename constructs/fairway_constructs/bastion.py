"""The ways in: Azure Bastion, and a gateway, which is a small VM."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from fairway_constructs.azurerm.bastion_host import BastionHost, IpConfiguration
from fairway_constructs.azurerm.network_security_group import NetworkSecurityGroup
from fairway_constructs.azurerm.public_ip import PublicIp
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.subnet import Subnet
from fairway_constructs.azurerm.subnet_network_security_group_association import (
    SubnetNetworkSecurityGroupAssociation,
)
from fairway_constructs.cdk import Component, context_of
from fairway_constructs.cloud_init import server_cloud_init
from fairway_constructs.network_access import public_ranges
from fairway_constructs.network_rules import DENY_THE_REST, allow, numbered
from fairway_constructs.scope import azure_scope_of
from fairway_constructs.server_vm import private_interface, server_vm
from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.identity import Grantee
    from fairway_constructs.network_access import HasSubnets, Machines, SubnetRef
    from fairway_core.resource_ids import ObjectId

# The ports between Bastion's own components.
_DATA_PLANE = ["8080", "5701"]
_NETWORK = "VirtualNetwork"


class Bastion(Component):
    """An Azure Bastion in a subnet of its own, for tunnels of the az CLI to private addresses.

    Users are authenticated twice: by Entra ID, for a role on the bastion, and by the node, for an
    SSH key. If `allowed` names public ranges the bastion accepts connections only from these.

        az network bastion ssh --name lab-bas --resource-group lab-rg-network \\
            --target-ip-address 10.40.0.4 --auth-type ssh-key --username azureuser \\
            --ssh-key ~/.ssh/id_ed25519

    >>> bastion = Bastion(stack, network=network, addresses=IPv4Network("10.40.255.0/26"),
    ...                   admins=["00000000-0000-0000-0000-000000000000"])
    >>> bastion.id
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "bastion",
        *,
        network: HasSubnets,
        addresses: IPv4Network,
        allowed: Sequence[IPv4Network | str] = (),
        admins: Sequence[ObjectId] = (),
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        subnet = Subnet(
            self,
            "bastion",
            name="AzureBastionSubnet",  # as Azure requires
            resource_group_name=network.resource_group,
            virtual_network_name=network.name,
            address_prefixes=[str(addresses)],
        )
        rules = SubnetNetworkSecurityGroupAssociation(
            self,
            "bastion-has-rules",
            subnet_id=subnet.id,
            network_security_group_id=_rules(self, allowed).id,
        )
        address = PublicIp(
            self,
            "bastion-address",
            name=azure.name("public_ip", "bastion"),
            **azure.common,
            allocation_method="Static",
            sku="Standard",
        )
        self.host = BastionHost(
            self,
            "bastion-host",
            name=azure.name("bastion_host"),
            **azure.common,
            # The smallest SKU with tunnels; by address because nodes of scale sets come and go.
            sku="Standard",
            tunneling_enabled=True,
            ip_connect_enabled=True,
            copy_paste_enabled=False,
            ip_configuration=IpConfiguration(
                name="primary", subnet_id=subnet.id, public_ip_address_id=address.id
            ),
            # Azure refuses a bastion in a subnet without all required rules.
            depends_on=[rules],
        )
        self.id = self.host.id
        for admin in admins:
            grant_connections(self, "bastion", admin, resource_id=self.id, what="the bastion")

    def grant_connect(self, grantee: Grantee, nodes: Sequence[Machines] = ()) -> None:
        """Lets the grantee connect through it to these nodes, which still require SSH keys."""
        paths = ["/".join(context_of(cast("Construct", each)).path) for each in nodes]
        ends = [("the bastion", "bastion", self.id)]
        ends += [
            (f"the nodes of {path}", path.replace("/", "-"), each.id)
            for path, each in zip(paths, nodes, strict=True)
        ]
        for what, key, resource_id in ends:
            grantee.identity.grant(
                f"sees-{key}",
                "Reader",
                on=resource_id,
                reason=f"Connects to nodes through the bastion, and must see {what} for that",
            )


def grant_connections(
    scope: Construct, name: str, admin: str, *, resource_id: str, what: str
) -> None:
    """Grants a user or a group the role for connections through a bastion: to see both ends."""
    RoleAssignment(
        scope,
        f"{name}-seen-by-{admin}",
        scope_=resource_id,
        role_definition_name="Reader",
        principal_id=admin,
        description=f"Connects to nodes through the bastion, and must see {what} for that",
    )


def _rules(scope: Construct, allowed: Sequence[IPv4Network | str]) -> NetworkSecurityGroup:
    """Returns all rules that Azure requires of this subnet, in both directions, and no others.

    Source: Azure documentation, configure NSG rules for Azure Bastion.
    """
    azure = azure_scope_of(scope)
    people = public_ranges(allowed) or ["Internet"]
    inbound = [
        allow("HttpsFromPeople", people if len(people) > 1 else people[0], "*", port="443"),
        allow("HttpsFromGatewayManager", "GatewayManager", "*", port="443"),
        allow("HttpsFromLoadBalancer", "AzureLoadBalancer", "*", port="443"),
        allow("DataPlaneIn", _NETWORK, _NETWORK, port=_DATA_PLANE, protocol="*"),
    ]
    out = partial(allow, direction="Outbound")
    outbound = [
        # Azure requires the port of RDP too, although no machine here listens on it.
        out("SshAndRdpToMachines", "*", _NETWORK, port=["22", "3389"]),
        out("HttpsToAzure", "*", "AzureCloud", port="443"),
        out("DataPlaneOut", _NETWORK, _NETWORK, port=_DATA_PLANE, protocol="*"),
        out("HttpForCertificates", "*", "Internet", port="80", protocol="*"),
    ]
    return NetworkSecurityGroup(
        scope,
        "bastion-rules",
        name=azure.name("network_security_group", "bastion"),
        **azure.common,
        security_rule=[*numbered(inbound), *numbered(outbound), DENY_THE_REST],
    )


# The machine's name after the environment's.
_NAME = "gateway"


class Gateway(Component):
    """A VM through which users' machines reach storage and Batch at their private addresses.

    It has no identity and no file system: its users may do only what their own sign-in allows. Its
    address stays if the VM is replaced. The VM is created after `depends_on`.

    >>> gateway = Gateway(stack, size="Standard_D2s_v6", subnet=subnet)
    >>> gateway.address
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "gateway",
        *,
        size: str,
        subnet: SubnetRef,
        accounts: Accounts | None = None,
        depends_on: Sequence[Construct] = (),
    ) -> None:
        super().__init__(scope, id)
        azure = self.azure
        machine = vm_size(size)
        interface = private_interface(
            self, "gateway-nic", name=_NAME, size=machine, subnet_id=subnet.id
        )
        self.address = interface.private_ip_address
        self.virtual_machine = server_vm(
            self,
            "gateway",
            name=_NAME,
            role="gateway",
            size=machine,
            interface_id=interface.id,
            cloud_init=server_cloud_init(azure.proxy) if azure.proxy else None,
            accounts=accounts,
            depends_on=depends_on,
        )
        self.range = subnet.range
