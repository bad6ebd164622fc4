"""Rules on the network: no access from the internet that the file does not ask for."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.terraform.stack import Resources, referenced_address, resources_of_type
from fairway_core.findings import Severity
from fairway_core.json_values import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.checks.check import CheckContext, Match

_INTERNET = frozenset({"*", "any", "internet", "0.0.0.0/0", "::/0", "0.0.0.0"})  # noqa: S104
_HTTPS = "443"


def _rules(resources: Resources, context: CheckContext) -> Iterator[Match]:
    for_bastion = _bastion_groups(resources) if context.bastion else set()
    for name, group in resources.get("azurerm_network_security_group", {}).items():
        for index, rule in enumerate(blocks(group.get("security_rule"))):
            path = ("azurerm_network_security_group", name, "security_rule", index)
            yield path, {"rule": rule, "allowed": context.allowed, "bastion": name in for_bastion}
    for name, rule in resources.get("azurerm_network_security_rule", {}).items():
        address = referenced_address(rule.get("network_security_group_name")) or ""
        bastion = address.rpartition(".")[2] in for_bastion
        facts = {"rule": rule, "allowed": context.allowed, "bastion": bastion}
        yield ("azurerm_network_security_rule", name), facts


def _bastion_groups(resources: Resources) -> set[str]:
    """Returns the names of the security groups on the subnet of Azure Bastion."""
    subnets = {
        f"azurerm_subnet.{name}"
        for name, subnet in resources.get("azurerm_subnet", {}).items()
        if subnet.get("name") == "AzureBastionSubnet"
    }
    associations = resources.get("azurerm_subnet_network_security_group_association", {})
    groups = [
        referenced_address(link.get("network_security_group_id"))
        for link in associations.values()
        if referenced_address(link.get("subnet_id")) in subnets
    ]
    return {group.rpartition(".")[2] for group in groups if group}


@check("open-to-internet", Severity.ERROR, Subject.TERRAFORM, select=_rules)
def open_to_internet(
    rule: Mapping[str, Any], allowed: Sequence[IPv4Network], bastion: bool
) -> Iterator[Violation]:
    """A rule that lets the internet in, or a public range that `access.allowed` does not name.

    Azure Bastion's own subnet takes HTTPS from everywhere: that is what it is for.

    Wrong:
        azurerm_network_security_group.compute-rules:
          security_rule:
            - {name: AllowSsh, direction: Inbound, access: Allow, protocol: Tcp,
               source_address_prefix: "*", destination_port_range: "22"}

    Right:
        azurerm_network_security_group.compute-rules:
          security_rule:
            - {name: AllowSsh, direction: Inbound, access: Allow, protocol: Tcp,
               source_address_prefixes: [203.0.113.0/24], destination_port_range: "22"}
    """
    if rule.get("direction") != "Inbound" or rule.get("access") != "Allow":
        return
    if bastion and rule.get("destination_port_range") == _HTTPS:
        return
    sources = [rule.get("source_address_prefix"), *rule.get("source_address_prefixes", ())]
    for source in sources:
        if isinstance(source, str) and _is_open(source, allowed):
            yield Violation(
                f"rule `{rule.get('name')}` admits `{source}`",
                "name the ranges that you work from in `allowed`",
            )


def _is_open(source: str, allowed: Sequence[IPv4Network]) -> bool:
    if source.lower() in _INTERNET:
        return True
    try:
        network = IPv4Network(source)
    except ValueError:
        return False  # a service tag, or an expression
    return network.is_global and not any(network.subnet_of(each) for each in allowed)


def _users_of_addresses(resources: Resources) -> dict[str, set[str]]:
    """Returns the types of the resources that refer to each public address."""
    users: dict[str, set[str]] = {}
    for type_, named in resources.items():
        for arguments in named.values():
            configurations = blocks(arguments.get("ip_configuration"))
            for holder in (arguments, *configurations):
                if address := referenced_address(holder.get("public_ip_address_id")):
                    users.setdefault(address, set()).add(type_)
    return users


_NAT = "azurerm_nat_gateway_public_ip_association"
_BASTION = "azurerm_bastion_host"


@check("public-address", Severity.ERROR, Subject.TERRAFORM)
def public_address(resources: Resources, context: CheckContext) -> Iterator[Violation]:
    """A public address of anything but the NAT gateway or a Bastion that you asked for.

    Wrong:
        azurerm_public_ip.server: {name: demo-pip-server}
        azurerm_network_interface.server:
          {ip_configuration: [{public_ip_address_id: "${azurerm_public_ip.server.id}"}]}

    Right:
        azurerm_public_ip.nat: {name: demo-pip-nat}
        azurerm_nat_gateway_public_ip_association.nat:
          {public_ip_address_id: "${azurerm_public_ip.nat.id}"}
    """
    users = _users_of_addresses(resources)
    asked_for = {_NAT, _BASTION} if context.bastion else {_NAT}
    for name in resources.get("azurerm_public_ip", {}):
        path, used_by = ("azurerm_public_ip", name), users.get(f"azurerm_public_ip.{name}", set())
        if unasked := ", ".join(sorted(used_by - asked_for)):
            hint = "reach it over the bastion or a private network"
            yield Violation(f"this public address belongs to {unasked}", hint, path)
        elif not used_by:
            message = "this public address belongs to nothing in its stack"
            yield Violation(message, "remove it", path)


@check(
    "public-interface",
    Severity.ERROR,
    Subject.TERRAFORM,
    select=resources_of_type("azurerm_linux_virtual_machine_scale_set"),
)
def public_interface(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A scale set whose nodes have public addresses.

    Wrong:
        azurerm_linux_virtual_machine_scale_set.pair:
          network_interface:
            - name: primary
              ip_configuration: [{name: primary, public_ip_address: [{name: public}]}]

    Right:
        azurerm_linux_virtual_machine_scale_set.pair:
          {network_interface: [{name: primary, ip_configuration: [{name: primary}]}]}
    """
    for number, interface in enumerate(blocks(arguments.get("network_interface"))):
        for configuration in blocks(interface.get("ip_configuration")):
            if configuration.get("public_ip_address"):
                yield Violation(
                    "each node would have a public address",
                    "leave `public_ip_address` out: nodes reach the internet through the "
                    "NAT gateway",
                    ("network_interface", number),
                )


@check(
    "public-pool", Severity.ERROR, Subject.TERRAFORM, select=resources_of_type("azurerm_batch_pool")
)
def public_pool(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A Batch pool whose nodes have public addresses.

    Wrong:
        azurerm_batch_pool.spot: {network_configuration: {subnet_id: x}}

    Right:
        azurerm_batch_pool.spot:
          network_configuration:
            {subnet_id: x, public_address_provisioning_type: NoPublicIPAddresses}
    """
    for network in blocks(arguments.get("network_configuration")):
        if network.get("public_address_provisioning_type") != "NoPublicIPAddresses":
            yield Violation(
                "Azure would give the pool's nodes public addresses",
                "public_address_provisioning_type = NoPublicIPAddresses",
                ("network_configuration",),
            )
