"""Rules on an environment's owner, its budget, access to it, and on a company's Azure Policies,
which the file repeats under `policies:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import vm_size
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.environment.keys import NOBODYS_KEY
from fairway_core.fields import PLACEHOLDER
from fairway_core.findings import Severity, counted
from fairway_core.naming import OWN_TAGS
from fairway_core.public_ranges import internet_ranges
from fairway_core.target import SshRoute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Match
    from fairway_core.environment import Environment
    from fairway_core.yaml_text import DataPath


@check("no-owner", Severity.WARNING, Subject.ENVIRONMENT)
def no_owner(environment: Environment) -> Iterator[Violation]:
    """Resources without an owner: no tag `owner`.

    Wrong:
        tags: {owner: "", project: vision}

    Right:
        tags: {owner: research@example.com, project: vision}
    """
    named = (value for name, value in environment.tags.items() if name.lower() == "owner")
    if not any(value.strip() for value in named):
        yield Violation("no tag names the owner", "add `tags: {owner: you@example.com}`", ("tags",))


def _stand_ins(environment: Environment) -> Iterator[Match]:
    """Yields every key and address that the user fills in: `text`."""
    for index, key in enumerate(environment.access.ssh_keys or ()):
        yield ("access", "ssh_keys", index), {"text": key}
    for name, value in environment.tags.items():
        yield ("tags", name), {"text": value}
    for section in ("monitoring", "budget"):
        part = getattr(environment, section)
        for index, address in enumerate(part.emails if part else ()):
            yield (section, "emails", index), {"text": address}


@check("placeholder", Severity.WARNING, Subject.ENVIRONMENT, select=_stand_ins)
def placeholder(text: str) -> Iterator[Violation]:
    """A key that lets nobody in, or an address that nobody reads, as examples have them.

    Wrong:
        tags: {owner: you@example.com}

    Right:
        tags: {owner: research@example.com}
    """
    if text == NOBODYS_KEY:
        hint = "put in your own: ssh-keygen -t ed25519, and then ~/.ssh/id_ed25519.pub"
        yield Violation("nobody has the private half of this key: it lets no one in", hint)
    elif text == PLACEHOLDER:
        yield Violation(f"nobody reads {PLACEHOLDER}", "put in the address of who is responsible")


@check("no-budget", Severity.WARNING, Subject.ENVIRONMENT)
def no_budget(environment: Environment) -> Iterator[Violation]:
    """GPUs without a budget: no alert when a forgotten cluster costs too much.

    Wrong:
        budget: null

    Right:
        budget: {monthly: 50000, emails: [team@example.com]}
    """
    gpus = sum(
        gpu.count * cluster.node_range.max
        for cluster in environment.clusters.values()
        if (gpu := vm_size(cluster.size).gpu)
    )
    if gpus and environment.budget is None:
        hint = "add `budget: {monthly: 50000, emails: [you@example.com]}`"
        yield Violation(f"{counted(gpus, 'GPU')}, and no budget alerts", hint, ("clusters",))


@check("unseen-zones", Severity.WARNING, Subject.ENVIRONMENT)
def unseen_zones(environment: Environment) -> Iterator[Violation]:
    """Custom DNS servers, and private DNS zones that are linked to this network only.

    Nodes ask these servers, and these do not see the zones unless they forward to a resolver in
    this network: storage then has a public address, which is closed.

    Wrong:
        network: {dns: {servers: [10.0.0.10]}}

    Right:
        network: {dns: {servers: [10.0.0.10], zones: none}}
    """
    network = environment.network
    if network.dns.servers and network.makes_zones:
        yield Violation(
            "nodes ask these DNS servers, which do not see the private zones of this network",
            "name the zones that they do see as `zones: {blob: ID, …}`, or set `zones: "
            "none` if a policy links them",
            ("network", "dns"),
        )


@check("closed-batch", Severity.WARNING, Subject.ENVIRONMENT)
def closed_batch(environment: Environment) -> Iterator[Violation]:
    """A Batch account with only a private address, and no way to reach it.

    A Bastion leads to VMs only. Commands reach Batch and storage through one of these over SSH:
    the gateway, a Slurm scheduler or a cluster with `engine: ssh`.

    Wrong:
        access: {allowed: [], bastion: true}
        clusters: {pair: {engine: batch, size: Standard_ND96asr_v4, nodes: 2}}

    Right:
        access: {allowed: [], bastion: true, gateway: true}
        clusters: {pair: {engine: batch, size: Standard_ND96asr_v4, nodes: 2}}
    """
    access, network = environment.access, environment.network
    if not environment.pools or not network.private_endpoints:
        return
    has_host = any(each.takes_logins for each in environment.clusters.values())
    leads_out = access.allowed or network.existing or network.peerings
    if not (leads_out or access.gateway or has_host):
        yield Violation(
            "nothing outside the network reaches Batch and storage: you cannot submit jobs "
            "from your machine",
            "add `gateway: true`, or the public ranges that you work from as `allowed: [...]`",
            ("access",),
        )


@check("no-way-in", Severity.WARNING, Subject.ENVIRONMENT)
def no_way_in(environment: Environment) -> Iterator[Violation]:
    """Clusters that take jobs over SSH, but let nobody in.

    Nodes have no public address. A range under `allowed` needs a private way to the network
    as well, for example a peering with a VPN gateway.

    Wrong:
        access: {allowed: []}

    Right:
        access: {allowed: [], bastion: true}
    """
    access = environment.access
    has_way_in = access.bastion or access.allowed or environment.network.existing
    if not has_way_in and any(each.takes_logins for each in environment.clusters.values()):
        hint = "add `bastion: true`, or the ranges that you work from as `allowed: [...]`"
        if isinstance(access.ssh_route, SshRoute):
            end = "that Bastion's subnet" if access.ssh_route.bastion else "your last jump host"
            hint = f"add the range of {end} as `allowed: [...]`"
        yield Violation(
            "jobs reach these clusters over SSH, and `access:` admits nobody", hint, ("access",)
        )


@check("policy-tag", Severity.ERROR, Subject.ENVIRONMENT)
def policy_tag(environment: Environment) -> Iterator[Violation]:
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
        if folded in OWN_TAGS or values.get(folded, "").strip():
            continue
        missing = "has no value" if folded in values else "is missing"
        yield Violation(
            f"the tag `{name}`, which `policies.required_tags` requires on every resource, "
            f"{missing}",
            f"add it under `tags:`, for example `{name}: VALUE`",
            ("tags",),
        )


@check("policy-region", Severity.ERROR, Subject.ENVIRONMENT)
def policy_region(environment: Environment) -> Iterator[Violation]:
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
        yield Violation(message, f"take {' or '.join(allowed)}", ("location",))


@check("policy-public-address", Severity.ERROR, Subject.ENVIRONMENT)
def policy_public_address(environment: Environment) -> Iterator[Violation]:
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
        yield Violation(f"the NAT gateway {denied}", hint, ("network", "egress"))
    if environment.access.bastion:
        hint = "leave it out, and name an existing one under `access.ssh_route`"
        yield Violation(f"the bastion {denied}", hint, ("access", "bastion"))


@check("policy-public-access", Severity.ERROR, Subject.ENVIRONMENT)
def policy_public_access(environment: Environment) -> Iterator[Violation]:
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
    if internet_ranges(environment.access.allowed):
        message = f"services would be open to these public ranges, {denied}"
        hint = "name only private ranges, and reach services through `access.gateway` or a host"
        yield Violation(message, hint, ("access", "allowed"))
    if not environment.network.private_endpoints:
        message = f"services would be open to the subnets of the nodes, {denied}"
        path = ("network", "private_endpoints")
        yield Violation(message, "leave `private_endpoints: false` out", path)
    if environment.owns_pool_nodes:
        vault = "the vault of a Batch account in mode UserSubscription"
        message = f"{vault} is open to Azure's services, {denied}"
        yield Violation(message, "use `mode: BatchService`", ("batch", "mode"))


def _encrypted(environment: Environment) -> Iterator[tuple[str, DataPath, str]]:
    """Yields what is encrypted with Azure's keys: its kind in `policies:`, its path and a name."""
    storage = environment.storage
    if not storage.existing and not storage.customer_managed_key:
        yield "storage", ("storage",), "the storage account"
    if environment.new_registry:
        yield "registry", ("registry",), "the registry"
    for manager in environment.managers.values():
        for kind, part in manager.encrypted.items():
            yield kind, ("clusters",), part
    for name, each in environment.filesystems.items():
        for kind, part in each.encrypted.items():
            yield kind, ("filesystems", name), f"{part} `{name}`"
    for name in environment.clusters:
        # A pool's disks belong to Batch, unless it creates the nodes in the subscription.
        if name not in environment.pools or environment.owns_pool_nodes:
            yield "disks", ("clusters", name), f"the disks of `{name}`"
    if environment.access.gateway:
        yield "disks", ("access", "gateway"), "the disk of the gateway"


@check("policy-key", Severity.ERROR, Subject.ENVIRONMENT)
def policy_key(environment: Environment) -> Iterator[Violation]:
    """Something with Azure's own keys, although the company requires customer-managed ones.

    Fairway gives the storage account such a key; other services cannot have one here.

    Wrong:
        policies: {require_cmk: [storage]}

    Right:
        policies: {require_cmk: [storage]}
        storage: {customer_managed_key: true}
    """
    denied = "would be encrypted only with Azure's key, which `policies.require_cmk` denies"
    for wanted in environment.policies.require_cmk:
        hint = (
            f"Fairway cannot give it your own key: get an exemption, and remove `{wanted}` "
            "from `policies.require_cmk`"
        )
        if wanted == "storage":
            hint = "set `customer_managed_key: true` there"
        for kind, path, what in _encrypted(environment):
            if kind == wanted:
                yield Violation(f"{what} {denied}", hint, path)
