"""Rules on network access and permissions that a plan would grant."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import FIREWALLS, is_broad_role, opening_attributes
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.resource_change import lower_text
from fairway_core.findings import Severity
from fairway_core.json_values import as_list, blocks, first_block
from fairway_core.review.attributes import HIDDEN, UNKNOWN, masked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.check import Match
    from fairway_core.checks.resource_change import Changes, ResourceChange


_GROUP, _RULE = "azurerm_network_security_group", "azurerm_network_security_rule"
# The associations of a group with a resource, and the attribute that names the resource.
_ASSOCIATIONS = {
    "azurerm_network_interface_security_group_association": "network_interface_id",
    "azurerm_subnet_network_security_group_association": "subnet_id",
}
_HOMES = ("azurerm_network_interface", "azurerm_subnet")
_OF_NETWORKS = (_GROUP, _RULE, *_ASSOCIATIONS)
# The only service whose `network_profile` is a firewall, and the blocks in it.
_BATCH = "azurerm_batch_account"
_OF_BATCH = ("account_access", "node_management_access")
_LATER = "ranges that are known only after apply"
_PUBLIC = "public_network_access_enabled"
# Service tags inside the network, and those from which only Azure itself sends: a Bastion needs
# one, Managed Lustre the other. Source: Azure documentation, "Virtual network service tags".
_INSIDE = frozenset({"virtualnetwork", "azureloadbalancer", "gatewaymanager", "azuremonitor"})
# Traffic from this tag reaches a Bastion, which requires a sign-in.
_BASTION = "gatewaymanager"
_APPLY_FIRST = "name the ranges, or apply first what they come from"
_KEEP = "keep what creates it in the environment file"


def _changes(changes: Changes) -> Iterator[Match]:
    gone = {id(each) for each in _gone_with_their_homes(changes)}
    for change in changes:
        # Most resources cannot open anything.
        names = {*opening_attributes(), *_firewalls(change)} & {*change.after, *change.unknown}
        may_open = change.type in _OF_NETWORKS or names
        if change.acts and may_open and id(change) not in gone:
            sides = {side: _looked_at(change, side) for side in ("before", "after")}
            yield (change.address,), {"address": change.address, "type": change.type, **sides}


def _gone_with_their_homes(changes: Changes) -> Iterator[ResourceChange]:
    """Yields the deleted associations of subnets and interfaces that are deleted too, and the
    deleted groups that applied to nothing else: nothing remains there that could be opened."""
    ending = [each for each in changes if each.actions == ["delete"]]
    homes = {lower_text(each.before, "id") for each in ending if each.type in _HOMES}
    unused, still_used = set(), set()
    for each in changes:
        if each.type in _ASSOCIATIONS and each.acts:
            group = lower_text(each.before, "network_security_group_id")
            home = lower_text(each.before, _ASSOCIATIONS[each.type])
            if each.actions == ["delete"] and home in homes:
                unused.add(group)
                yield each
            else:  # after a replacement another group's rules apply there
                still_used.add(group)
    unused -= still_used
    yield from (
        each for each in ending if each.type == _GROUP and lower_text(each.before, "id") in unused
    )


def _looked_at(change: ResourceChange, side: str) -> Mapping[str, Any]:
    """Returns the attributes that the rule reads: a service's firewalls, and its switches unmasked.

    A switch is no secret, and marking it as one must not hide that it opens the service.
    """
    if change.type in _OF_NETWORKS:
        return change.shown(side)
    values = change.before if side == "before" else change.after
    switches = {
        key: values[key] for key in opening_attributes() if isinstance(values.get(key), bool)
    }
    names = _firewalls(change)
    firewalls = {key: values[key] for key in names if values.get(key)}
    later = {key: change.unknown.get(key) for key in names if side == "after"}
    if firewalls or any(later.values()):
        safe = masked(firewalls, change.raw["change"].get(f"{side}_sensitive"), later)
        firewalls = safe if isinstance(safe, dict) else dict.fromkeys(firewalls, HIDDEN)
    return {**switches, **firewalls}


def _firewalls(change: ResourceChange) -> list[str]:
    return [each for each in FIREWALLS if each != "network_profile" or change.type == _BATCH]


@check("network-opened", Severity.WARNING, Subject.PLAN, select=_changes)
def network_opened(
    address: str,
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Iterator[Violation]:
    """A change that lets more of the outside in: rules of a network, or a service's firewall.

    Wrong:
        azurerm_network_security_rule.ssh:
          actions: [create]
          after: {name: ssh, direction: Inbound, access: Allow, source_address_prefix: "*"}

    Right:
        azurerm_network_security_rule.ssh:
          actions: [create]
          after: {name: ssh, direction: Inbound, access: Allow, source_address_prefix: 10.0.0.0/8}
    """
    if type in (_GROUP, _RULE):
        for name in ("security_rule", "source_address_prefix", "source_address_prefixes"):
            if after.get(name) is HIDDEN:
                yield _unseen(address, name)
        yield from _opened_rules(address, _rules(type, before), _rules(type, after))
    elif type in _ASSOCIATIONS and not after:
        yield Violation(f"`{address}` would be destroyed: its rules would no longer apply", _KEEP)
    elif after:
        yield from _opened_service(address, before, after)


def _unseen(address: str, what: str) -> Violation:
    return Violation(
        f"`{address}`: {what} is marked as a secret, so nobody can see whom it admits",
        "remove the mark: whom it admits is not a secret",
    )


def _rules(type: str, attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:  # noqa: A002
    if type == _RULE:
        return [attributes] if attributes else []
    return blocks(attributes.get("security_rule"))


def _opened_rules(
    address: str, before: list[Mapping[str, Any]], after: list[Mapping[str, Any]]
) -> Iterator[Violation]:
    if not before and any(_BASTION in map(str.lower, _sources(rule)) for rule in after):
        # A new Bastion, which people may reach from anywhere, but only over HTTPS.
        after = [rule for rule in after if _ports(rule) != {"443"}]
    old, new = (
        {str(rule.get("name")): rule for rule in rules if rule.get("direction") == "Inbound"}
        for rules in (before, after)
    )
    for name, rule in new.items():
        was = old.get(name, {})
        if rule.get("access") != "Allow" or _shape(rule) == _shape(was):
            continue
        outside = sorted(source for source in _sources(rule) if _is_outside(source))
        if not _sources(rule):
            yield Violation(
                f"rule `{name}` of `{address}` would admit sources that are known only after apply",
                _APPLY_FIRST,
            )
        if outside:
            sources, ports = ", ".join(outside), ", ".join(sorted(_ports(rule)) or ["*"])
            yield Violation(
                f"rule `{name}` of `{address}` would admit {sources} on port {ports}",
                "name the ranges that you work from",
            )
    for name, was in old.items():
        if was.get("access") == "Deny" and _shape(new.get(name, {})) != _shape(was):
            does = "be another" if new.get(name, {}).get("access") == "Deny" else "be removed"
            message = f"rule `{name}` of `{address}`, which denies access, would {does}"
            yield Violation(message, "keep it, or make sure that nothing gets in without it")


def _shape(rule: Mapping[str, Any]) -> object:
    targets = _texts(rule, "destination_address_prefix", "destination_address_prefixes")
    what = (rule.get("access"), rule.get("protocol"), rule.get("priority"))
    return (*what, _sources(rule), _ports(rule), targets)


def _sources(rule: Mapping[str, Any]) -> frozenset[str]:
    return _texts(rule, "source_address_prefix", "source_address_prefixes")


def _ports(rule: Mapping[str, Any]) -> frozenset[str]:
    return _texts(rule, "destination_port_range", "destination_port_ranges")


def _texts(rule: Mapping[str, Any], singular: str, plural: str) -> frozenset[str]:
    several = rule.get(plural)
    values = [rule.get(singular), *(several if isinstance(several, list) else [several])]
    return frozenset(str(value) for value in values if value)


def _is_outside(source: str) -> bool:
    """Returns True if a source is outside the network, such as the internet or another service."""
    try:
        return not ip_network(source, strict=False).is_private
    except ValueError:
        return source.lower() not in _INSIDE


def _opened_service(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Violation]:
    closed, walls = dict(_walls(before)), dict(_walls(after))
    is_closed = after.get(_PUBLIC) is False
    opened = {
        attribute: value
        for attribute, value in opening_attributes().items()
        if after.get(attribute) == value and before.get(attribute) != value
    }
    # A public service whose firewall admits only ranges is open to those alone. The provider marks
    # ranges that are not given as unknown, all at once.
    filled = [first_block(each) for each in walls.values() if each]
    denies = all(each.get("default_action") == "Deny" for each in filled)
    ranged = _PUBLIC in opened and denies and any(as_list(_given(each)) for each in filled)
    for attribute, value in opened.items():
        if not (ranged and attribute == _PUBLIC):
            text = str(value).lower() if isinstance(value, bool) else value
            yield Violation(f"`{address}` would open: {attribute} = {text}", "keep it closed")
    for block, new in walls.items():
        if new is HIDDEN:
            yield _unseen(address, block)
        elif UNKNOWN in (new, first_block(new).get("default_action")):
            if not opened and not is_closed:
                message = f"`{address}`: whom {block} admits is known only after apply"
                yield Violation(message, _APPLY_FIRST)
        else:
            old = {} if ranged else first_block(closed.get(block))
            is_said = is_closed or (bool(opened) and not ranged)
            yield from _admitted(address, block, old, first_block(new), is_said=is_said)


def _admitted(
    address: str, block: str, old: Mapping[str, Any], new: Mapping[str, Any], *, is_said: bool
) -> Iterator[Violation]:
    if new.get("default_action") == "Allow" and old.get("default_action") != "Allow":
        message = f"`{address}` would open: {block} admits every network"
        yield Violation(message, "default_action = Deny")
    added = _ranges(new) - _ranges(old)
    if is_said:  # unknown ranges open nothing more
        added -= {_LATER}
    if added:
        hint = _APPLY_FIRST if _LATER in added else "name the ranges that you work from"
        yield Violation(f"`{address}` would admit {', '.join(sorted(added))}", hint)


def _walls(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the blocks that admit networks, by name; HIDDEN or UNKNOWN if they are that whole."""
    for name in FIREWALLS:
        block = attributes.get(name)
        if name == "network_profile" and block not in (HIDDEN, UNKNOWN):
            yield from ((inner, first_block(block).get(inner)) for inner in _OF_BATCH)
        else:
            yield name, block


def _given(block: Mapping[str, Any]) -> Any:
    return block.get("ip_rules") or block.get("ip_rule")


def _ranges(block: Mapping[str, Any]) -> frozenset[str]:
    given = _given(block)
    rules = [
        first_block(rule).get("ip_range") if isinstance(rule, dict) else rule
        for rule in ([given] if given is UNKNOWN else as_list(given))
    ]
    return frozenset(_LATER if rule is UNKNOWN else str(rule) for rule in rules)


_GRANTS = frozenset(
    {"azurerm_federated_identity_credential", "azurerm_role_assignment", "azurerm_role_definition"}
)
# Whatever presents a token with all of these acts as the identity.
_TRUSTED = ("issuer", "subject", "audience")


def _is_own(after: Mapping[str, Any], unknown: Mapping[str, Any], own: Collection[str]) -> bool:
    """Returns True if the environment grants one of its own identities a role on one resource."""
    who, scope = after.get("principal_id"), lower_text(after, "scope")
    known = unknown.get("principal_id") is True if who is None else str(who) in own
    # Below a group: /subscriptions/…/resourceGroups/…/providers/…
    is_one = "/resourcegroups/" in scope and "/providers/" in scope
    return known and (is_one or (after.get("scope") is None and unknown.get("scope") is True))


@check("wider-grant", Severity.WARNING, Subject.PLAN)
def wider_grant(changes: Changes, own: Collection[str]) -> Iterator[Violation]:
    """A new role assignment, a wider scope, a role that allows more, or a newly trusted token.

    A role that the environment assigns to its own identity on a single resource is not
    reported, unless it is a broad one; nor is a new role that lists its actions: nobody has it yet.

    Wrong:
        azurerm_role_assignment.nodes:
          {actions: [create], after: {role_definition_name: Contributor, scope: /subscriptions/0}}

    Right:
        azurerm_role_assignment.nodes:
          actions: [delete, create]
          before: {role_definition_name: Reader, scope: /subscriptions/0}
          after: {role_definition_name: Reader, scope: /subscriptions/0/resourceGroups/lab}
    """
    for change in changes:
        if change.type in _GRANTS and change.acts and (after := change.shown("after")):
            is_own = _is_own(change.after, change.unknown, own)
            for message, hint in _granted(change.address, change.shown("before"), after, is_own):
                yield Violation(message, hint, (change.address,))


def _granted(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any], own: bool
) -> Iterator[tuple[str, str]]:
    """Yields a message on each granted right, and a hint."""
    if "permissions" in after:
        added = sorted(_allowed(after) - _allowed(before))
        if not before:  # of a new role only patterns, and actions that change permissions
            added = [
                action
                for action in added
                if "*" in action or action.lower().startswith("microsoft.authorization/")
            ]
        if added:
            yield f"role `{address}` would allow {', '.join(added)}", "allow only what is needed"
        return
    if "issuer" in after or "subject" in after:
        if any(before.get(key) != after.get(key) for key in _TRUSTED):
            issuer = after.get("issuer") or "an issuer that is known after apply"
            who = after.get("subject") or "a subject that is known after apply"
            message = f"`{address}` would let {who} of {issuer} act as its identity"
            yield message, "trust only the repository, branch or service account that needs it"
        return
    if not _is_wider(before, after):
        return
    role = after.get("role_definition_name") or after.get("role_definition_id") or "a role"
    over = after.get("scope") or "a scope that is known after apply"
    who = after.get("principal_id") or "an identity that is known after apply"
    broad = ", which is a broad role" if is_broad_role(str(role)) else ""
    # If the scope is a resource that is recreated, so is the role on it.
    same_scope = {**after, "scope": after.get("scope") or before.get("scope")}
    if own and not broad and not (before and _is_wider(before, same_scope)):
        return
    message = f"`{address}` would give {role} over {over} to {who}{broad}"
    yield message, "assign the narrowest role at the smallest scope that works"


def _is_wider(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    if not before:
        return True
    keys = ("role_definition_name", "role_definition_id", "principal_id")
    # A value may be null on one side only: the provider looks up a role's id.
    if any(before.get(key) and after.get(key) and before[key] != after[key] for key in keys):
        return True
    old, new = str(before.get("scope") or ""), str(after.get("scope") or "")
    return old != new and not f"{new}/".startswith(f"{old}/")


def _allowed(definition: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        str(action)
        for block in blocks(definition.get("permissions"))
        for key in ("actions", "data_actions")
        for action in as_list(block.get(key))
    )
