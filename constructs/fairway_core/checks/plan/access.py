"""A rule on what a plan would open to networks."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import open_when
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity
from fairway_core.json_values import blocks, first, listed
from fairway_core.review.attributes import HIDDEN, masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.resource_change import Changes, ResourceChange

_GROUP, _RULE = "azurerm_network_security_group", "azurerm_network_security_rule"
_ASSOCIATIONS = frozenset(
    {
        "azurerm_network_interface_security_group_association",
        "azurerm_subnet_network_security_group_association",
    }
)
_OF_NETWORKS = (_GROUP, _RULE, *_ASSOCIATIONS)
# Blocks of accounts, vaults and registries that say who gets in; Batch has blocks in one.
_FIREWALLS = ("network_rules", "network_acls", "network_rule_set", "network_profile")
_OF_BATCH = ("account_access", "node_management_access")
_PUBLIC = "public_network_access_enabled"
# Service tags of what is inside, and of what only Azure itself sends from: a Bastion needs the
# one, Managed Lustre the other. Source: Azure documentation, "Virtual network service tags".
_INSIDE = frozenset({"virtualnetwork", "azureloadbalancer", "gatewaymanager", "azuremonitor"})
# Who sends from there reaches a Bastion, which then asks for a sign-in.
_BASTION = "gatewaymanager"
_KEEP = "keep what creates it in the environment file"


def _changes(changes: Changes) -> Iterator[Occurrence]:
    for change in changes:
        if change.acts and _may_open(change):
            sides = {side: _looked_at(change, side) for side in ("before", "after")}
            yield (change.address,), {"address": change.address, "type": change.type, **sides}


def _looked_at(change: ResourceChange, side: str) -> Mapping[str, Any]:
    """What the rule reads; of a service that is few of its attributes, and switches as they are.

    A switch is no secret, and marked as one it must not open anything unseen.
    """
    if change.type in _OF_NETWORKS:
        return change.shown(side)
    values = change.before if side == "before" else change.after
    switches = {key: values[key] for key in open_when() if isinstance(values.get(key), bool)}
    firewalls = {key: values[key] for key in _FIREWALLS if values.get(key)}
    if firewalls:
        safe = masked(firewalls, change.raw["change"].get(f"{side}_sensitive"))
        firewalls = safe if isinstance(safe, dict) else dict.fromkeys(firewalls, HIDDEN)
    return {**switches, **firewalls}


def _may_open(change: ResourceChange) -> bool:
    """Whether there is anything to look at: most resources let nobody in."""
    names = change.after.keys()
    return change.type in _OF_NETWORKS or not (
        names.isdisjoint(open_when()) and names.isdisjoint(_FIREWALLS)
    )


@check("network-opened", Severity.WARNING, Subject.PLAN, at=_changes)
def network_opened(
    address: str,
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Iterator[Fault]:
    """A change that lets more of the outside in: rules of a network, or a service's firewall.

    Wrong:
        azurerm_network_security_rule.ssh:
          actions: [create]
          before: null
          after: {name: ssh, direction: Inbound, access: Allow, source_address_prefix: "*"}

    Right:
        azurerm_network_security_rule.ssh:
          actions: [create]
          before: null
          after: {name: ssh, direction: Inbound, access: Allow, source_address_prefix: 10.0.0.0/8}
    """
    if type in (_GROUP, _RULE):
        for name in ("security_rule", "source_address_prefix", "source_address_prefixes"):
            if after.get(name) is HIDDEN:
                yield _unseen(address, name)
        yield from _opened_rules(address, _rules(type, before), _rules(type, after))
    elif type in _ASSOCIATIONS and not after:
        yield Fault(f"`{address}` would be destroyed: its rules would no longer apply", _KEEP)
    elif after:
        yield from _opened_service(address, before, after)


def _unseen(address: str, what: str) -> Fault:
    return Fault(
        f"`{address}`: {what} is marked as a secret, so nobody can see whom it admits",
        "remove the mark: whom it admits is not a secret",
    )


def _rules(type: str, attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:  # noqa: A002
    if type == _RULE:
        return [attributes] if attributes else []
    return blocks(attributes.get("security_rule"))


def _opened_rules(
    address: str, before: list[Mapping[str, Any]], after: list[Mapping[str, Any]]
) -> Iterator[Fault]:
    if not before and any(_BASTION in map(str.lower, _sources(rule)) for rule in after):
        # A new Bastion, which people reach from where they are, over HTTPS and nothing else.
        after = [rule for rule in after if _ports(rule) != {"443"}]
    old = {str(rule.get("name")): rule for rule in before if _is_inbound(rule)}
    new = {str(rule.get("name")): rule for rule in after if _is_inbound(rule)}
    for name, rule in new.items():
        was = old.get(name, {})
        if rule.get("access") != "Allow" or _shape(rule) == _shape(was):
            continue
        outside = sorted(source for source in _sources(rule) if _is_outside(source))
        if outside:
            sources, ports = ", ".join(outside), ", ".join(sorted(_ports(rule)) or ["*"])
            yield Fault(
                f"rule `{name}` of `{address}` would admit {sources} on port {ports}",
                "name the ranges that you work from",
            )
    for name, was in old.items():
        if was.get("access") == "Deny" and new.get(name, {}).get("access") != "Deny":
            message = f"rule `{name}` of `{address}`, which denies access, would be removed"
            yield Fault(message, "keep it, or make sure that nothing gets in without it")


def _is_inbound(rule: Mapping[str, Any]) -> bool:
    return rule.get("direction") == "Inbound"


def _shape(rule: Mapping[str, Any]) -> object:
    return (rule.get("access"), rule.get("protocol"), _sources(rule), _ports(rule))


def _sources(rule: Mapping[str, Any]) -> frozenset[str]:
    return _texts(rule, "source_address_prefix", "source_address_prefixes")


def _ports(rule: Mapping[str, Any]) -> frozenset[str]:
    return _texts(rule, "destination_port_range", "destination_port_ranges")


def _texts(rule: Mapping[str, Any], singular: str, plural: str) -> frozenset[str]:
    several = rule.get(plural)
    values = [rule.get(singular), *(several if isinstance(several, list) else [several])]
    return frozenset(str(value) for value in values if value)


def _is_outside(source: str) -> bool:
    """Whether it is more than what is inside: the internet, a public range, another's service."""
    try:
        return not ip_network(source, strict=False).is_private
    except ValueError:
        return source.lower() not in _INSIDE


def _opened_service(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    closed, walls = dict(_walls(before)), dict(_walls(after))
    opened = {
        attribute: value
        for attribute, value in open_when().items()
        if after.get(attribute) == value and before.get(attribute) != value
    }
    # A service that is public, and whose firewall admits ranges alone, is open to those.
    filled = [first(each) for each in walls.values() if each]
    denies = all(each.get("default_action") == "Deny" for each in filled)
    ranged = _PUBLIC in opened and denies and any(map(_ranges, filled))
    for attribute, value in opened.items():
        if not (ranged and attribute == _PUBLIC):
            text = str(value).lower() if isinstance(value, bool) else value
            yield Fault(f"`{address}` would open: {attribute} = {text}", "keep it closed")
    for block, new in walls.items():
        if new is HIDDEN:
            yield _unseen(address, block)
            continue
        old = first(closed.get(block))
        if new.get("default_action") == "Allow" and old.get("default_action") != "Allow":
            message = f"`{address}` would open: {block} admits every network"
            yield Fault(message, "default_action = Deny")
        added = sorted(_ranges(new) - (frozenset() if ranged else _ranges(old)))
        if added:
            yield Fault(
                f"`{address}` would admit {', '.join(added)}", "name the ranges that you work from"
            )


def _walls(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The blocks that say who gets in, by their names; HIDDEN where they are marked as a secret."""
    for name in _FIREWALLS:
        block = attributes.get(name)
        if block is HIDDEN:
            yield name, HIDDEN
        elif name == "network_profile":
            yield from ((inner, first(first(block).get(inner))) for inner in _OF_BATCH)
        else:
            yield name, first(block)


def _ranges(block: Mapping[str, Any]) -> frozenset[str]:
    rules = listed(block.get("ip_rules") or block.get("ip_rule"))
    return frozenset(
        str(rule.get("ip_range") if isinstance(rule, dict) else rule) for rule in rules
    )
