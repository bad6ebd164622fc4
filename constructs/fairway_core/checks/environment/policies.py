"""Rules on what a company's Azure Policies deny, which the environment says under `policies:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.environment.tags import OWN
from fairway_core.findings import Severity
from fairway_core.public_ranges import seen_outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.environment import Environment


@check("policy-tag", Severity.ERROR, Subject.ENVIRONMENT)
def policy_tag(environment: Environment) -> Iterator[Fault]:
    """A tag that the company requires, and that is missing or empty.

    Wrong:
        policies: {required_tags: [cost-center]}
        tags: {owner: team@example.com}

    Right:
        policies: {required_tags: [cost-center]}
        tags: {owner: team@example.com, cost-center: "4711"}
    """
    values = {key.lower(): value for key, value in environment.tags.items()}
    for name in environment.policies.required_tags:
        folded = name.lower()
        if folded in OWN or values.get(folded, "").strip():
            continue
        missing = "has no value" if folded in values else "is missing"
        yield Fault(
            f"the tag `{name}`, which `policies.required_tags` requires on every resource, "
            f"{missing}",
            f"add it under `tags:`, for example `{name}: VALUE`",
            ("tags",),
        )


@check("policy-region", Severity.ERROR, Subject.ENVIRONMENT)
def policy_region(environment: Environment) -> Iterator[Fault]:
    """A region in which the company allows no resources.

    Wrong:
        location: eastus
        policies: {locations: [westeurope, northeurope]}

    Right:
        location: westeurope
        policies: {locations: [westeurope, northeurope]}
    """
    location, allowed = environment.location, environment.policies.locations
    if allowed and location not in allowed:
        message = f"`policies.locations` does not allow {location}"
        yield Fault(message, f"take {' or '.join(allowed)}", ("location",))


@check("policy-public-address", Severity.ERROR, Subject.ENVIRONMENT)
def policy_public_address(environment: Environment) -> Iterator[Fault]:
    """A public IP address, although the company denies them.

    Wrong:
        policies: {deny_public_addresses: true}
        network: {egress: nat}

    Right:
        policies: {deny_public_addresses: true}
        network: {egress: none, proxy: {http: "http://proxy.example.com:3128"}}
    """
    if not environment.policies.deny_public_addresses:
        return
    denied = "has a public address, which `policies.deny_public_addresses` denies"
    if environment.network.has_nat:
        hint = "use `egress: none`, also with a `proxy:`, a firewall, or `existing:` subnets"
        yield Fault(f"the NAT gateway {denied}", hint, ("network", "egress"))
    if environment.access.bastion:
        hint = "leave it out, and name an existing one under `access.reach`"
        yield Fault(f"the bastion {denied}", hint, ("access", "bastion"))


@check("policy-public-access", Severity.ERROR, Subject.ENVIRONMENT)
def policy_public_access(environment: Environment) -> Iterator[Fault]:
    """Services with a public endpoint, although the company denies them.

    Wrong:
        policies: {deny_public_access: true}
        access: {allowed: [203.0.113.0/24]}

    Right:
        policies: {deny_public_access: true}
        access: {allowed: [10.0.0.0/16]}
    """
    if not environment.policies.deny_public_access:
        return
    denied = "which `policies.deny_public_access` denies"
    if seen_outside(environment.access.allowed):
        message = f"services would be open to these public ranges, {denied}"
        hint = "name only private ranges, and reach services through `access.gateway` or a host"
        yield Fault(message, hint, ("access", "allowed"))
    if not environment.network.private_endpoints:
        message = f"services would be open to the subnets of the nodes, {denied}"
        path = ("network", "private_endpoints")
        yield Fault(message, "leave `private_endpoints: false` out", path)
    if environment.owns_pool_nodes:
        message = (
            "the vault of a Batch account in mode UserSubscription is open to Azure's services"
        )
        yield Fault(f"{message}, {denied}", "use `mode: BatchService`", ("batch", "mode"))


def _keys(environment: Environment) -> Iterator[Occurrence]:
    for kind in environment.policies.require_cmk:
        for path, what, can in _encrypted(environment, kind):
            yield path, {"kind": kind, "what": what, "can": can}


def _encrypted(environment: Environment, kind: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Resources of that kind that are made with Azure's own keys, each as its path, its name
    and whether it could have another key."""
    storage = environment.storage
    if kind == "storage" and not storage.existing and not storage.customer_managed_key:
        yield ("storage",), "the storage account", True
    if kind == "registry" and environment.new_registry:
        yield ("registry",), "the registry", False
    if kind == "batch" and environment.has_pools:
        yield ("clusters",), "the Batch account", False
    for name, each in environment.filesystems.items():
        if part := each.encrypted.get(kind):
            yield ("filesystems", name), f"{part} `{name}`", False
    for name, cluster in environment.clusters.items():
        # Those of a pool are Batch's own, unless it makes the nodes in the subscription.
        if kind == "disks" and (cluster.engine != "batch" or environment.owns_pool_nodes):
            yield ("clusters", name), f"the disks of `{name}`", False
    if kind == "disks" and environment.access.gateway:
        yield ("access", "gateway"), "the disk of the gateway", False


@check("policy-key", Severity.ERROR, Subject.ENVIRONMENT, at=_keys)
def policy_key(kind: str, what: str, can: bool) -> Iterator[Fault]:
    """Something with Azure's own keys, although the company requires customer-managed ones.

    Fairway gives the storage account such a key; other services cannot have one here.

    Wrong:
        policies: {require_cmk: [storage]}

    Right:
        policies: {require_cmk: [storage]}
        storage: {customer_managed_key: true}
    """
    if can:
        hint = "set `customer_managed_key: true` there"
    else:
        hint = (
            f"Fairway cannot give it your own key: get an exemption, and remove `{kind}` "
            "from `policies.require_cmk`"
        )
    yield Fault(
        f"{what} would be encrypted only with Azure's key, which `policies.require_cmk` denies",
        hint,
    )
