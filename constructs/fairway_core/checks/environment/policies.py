"""Rules on what a company's Azure Policies deny, which the environment says under `policies:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.environment.tags import OWN
from fairway_core.findings import Severity
from fairway_core.public_ranges import seen_outside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.check import EnvironmentSubject, Occurrence
    from fairway_core.environment import Environment


def _tags(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    for name in environment.policies.required_tags:
        yield ("tags",), {"name": name, "tags": environment.tags}


@check("policy-tag", Severity.ERROR, Subject.ENVIRONMENT, at=_tags)
def policy_tag(name: str, tags: Mapping[str, str]) -> Iterator[Fault]:
    """A tag that the company requires, and that is missing or empty.

    Wrong:
        policies: {required_tags: [cost-center]}
        tags: {owner: team@example.com}

    Right:
        policies: {required_tags: [cost-center]}
        tags: {owner: team@example.com, cost-center: "4711"}
    """
    values = {key.lower(): value for key, value in tags.items()}
    folded = name.lower()
    if folded in OWN or values.get(folded, "").strip():
        return
    missing = "has no value" if folded in values else "is missing"
    yield Fault(
        f"the tag `{name}`, which `policies.required_tags` requires on every resource, {missing}",
        f"add it under `tags:`, for example `{name}: VALUE`",
    )


def _regions(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    if environment.policies.locations:
        allowed = environment.policies.locations
        yield ("location",), {"location": environment.location, "allowed": allowed}


@check("policy-region", Severity.ERROR, Subject.ENVIRONMENT, at=_regions)
def policy_region(location: str, allowed: Collection[str]) -> Iterator[Fault]:
    """A region in which the company allows no resources.

    Wrong:
        location: eastus
        policies: {locations: [westeurope, northeurope]}

    Right:
        location: westeurope
        policies: {locations: [westeurope, northeurope]}
    """
    if location not in allowed:
        yield Fault(
            f"`policies.locations` does not allow {location}", f"take {' or '.join(allowed)}"
        )


def _public_addresses(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    if not environment.policies.deny_public_addresses:
        return
    network = environment.network
    if network.has_nat:
        hint = "use `egress: none`, also with a `proxy:`, a firewall, or `existing:` subnets"
        yield ("network", "egress"), {"what": "the NAT gateway", "hint": hint}
    if environment.access.bastion:
        hint = "leave it out, and name an existing one under `access.reach`"
        yield ("access", "bastion"), {"what": "the bastion", "hint": hint}


@check("policy-public-address", Severity.ERROR, Subject.ENVIRONMENT, at=_public_addresses)
def policy_public_address(what: str, hint: str) -> Iterator[Fault]:
    """A public IP address, although the company denies them.

    Wrong:
        policies: {deny_public_addresses: true}
        network: {egress: nat}

    Right:
        policies: {deny_public_addresses: true}
        network: {egress: none, proxy: {http: "http://proxy.example.com:3128"}}
    """
    yield Fault(f"{what} has a public address, which `policies.deny_public_addresses` denies", hint)


def _public_access(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    if not environment.policies.deny_public_access:
        return
    if seen_outside(environment.access.allowed):
        hint = "name only private ranges, and reach services through `access.gateway` or a host"
        what = "services would be open to these public ranges"
        yield ("access", "allowed"), {"what": what, "hint": hint}
    if not environment.network.private_endpoints:
        hint = "leave `private_endpoints: false` out"
        what = "services would be open to the subnets of the nodes"
        yield ("network", "private_endpoints"), {"what": what, "hint": hint}
    if environment.owns_pool_nodes:
        hint = "use `mode: BatchService`"
        what = "the vault of a Batch account in mode UserSubscription is open to Azure's services"
        yield ("batch", "mode"), {"what": what, "hint": hint}


@check("policy-public-access", Severity.ERROR, Subject.ENVIRONMENT, at=_public_access)
def policy_public_access(what: str, hint: str) -> Iterator[Fault]:
    """Services with a public endpoint, although the company denies them.

    Wrong:
        policies: {deny_public_access: true}
        access: {allowed: [203.0.113.0/24]}

    Right:
        policies: {deny_public_access: true}
        access: {allowed: [10.0.0.0/16]}
    """
    yield Fault(f"{what}, which `policies.deny_public_access` denies", hint)


def _keys(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    for kind in environment.policies.require_cmk:
        for path, what, can in _encrypted(environment, kind):
            yield path, {"kind": kind, "what": what, "can": can}


def _encrypted(environment: Environment, kind: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """What of that kind is made and has Azure's own keys, and whether it could have another."""
    storage, registry = environment.storage, environment.registry
    if kind == "storage" and not storage.existing and not storage.customer_managed_key:
        yield ("storage",), "the storage account", True
    if kind == "registry" and registry is not None and not registry.existing:
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
