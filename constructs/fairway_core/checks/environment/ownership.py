"""Rules on who owns an environment, who pays for it, and who can get at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import vm_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.environment.keys import NOBODYS_KEY
from fairway_core.fields import PLACEHOLDER
from fairway_core.findings import Severity, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.environment import Environment


@check("no-owner", Severity.WARNING, Subject.ENVIRONMENT)
def no_owner(environment: Environment) -> Iterator[Fault]:
    """Resources without an owner: no tag `owner`.

    Wrong:
        tags: {owner: "", project: vision}

    Right:
        tags: {owner: research@example.com, project: vision}
    """
    named = (value for name, value in environment.tags.items() if name.lower() == "owner")
    if not any(value.strip() for value in named):
        yield Fault("no tag names the owner", "add `tags: {owner: you@example.com}`", ("tags",))


def _stand_ins(environment: Environment) -> Iterator[Occurrence]:
    """Every key and address that a person puts in: `text`."""
    for index, key in enumerate(environment.access.ssh_keys or ()):
        yield ("access", "ssh_keys", index), {"text": key}
    for name, value in environment.tags.items():
        yield ("tags", name), {"text": value}
    for section in ("monitoring", "budget"):
        part = getattr(environment, section)
        for index, address in enumerate(part.emails if part else ()):
            yield (section, "emails", index), {"text": address}


@check("placeholder", Severity.WARNING, Subject.ENVIRONMENT, at=_stand_ins)
def placeholder(text: str) -> Iterator[Fault]:
    """A key that lets nobody in, or an address that nobody reads, as examples have them.

    Wrong:
        tags: {owner: you@example.com}

    Right:
        tags: {owner: research@example.com}
    """
    if text == NOBODYS_KEY:
        hint = "put in your own: ssh-keygen -t ed25519, and then ~/.ssh/id_ed25519.pub"
        yield Fault("nobody has the private half of this key: it lets no one in", hint)
    elif text == PLACEHOLDER:
        yield Fault(f"nobody reads {PLACEHOLDER}", "put in the address of who is responsible")


@check("no-budget", Severity.WARNING, Subject.ENVIRONMENT)
def no_budget(environment: Environment) -> Iterator[Fault]:
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
        yield Fault(f"{counted(gpus, 'GPU')}, and no budget alerts", hint, ("clusters",))


@check("unseen-zones", Severity.WARNING, Subject.ENVIRONMENT)
def unseen_zones(environment: Environment) -> Iterator[Fault]:
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
        yield Fault(
            "nodes ask these DNS servers, which do not see the private zones of this network",
            "name the zones that they do see as `zones: {blob: ID, …}`, or set `zones: "
            "none` if a policy links them",
            ("network", "dns"),
        )


@check("closed-batch", Severity.WARNING, Subject.ENVIRONMENT)
def closed_batch(environment: Environment) -> Iterator[Fault]:
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
    if not environment.has_pools or not network.private_endpoints:
        return
    has_host = any(each.takes_logins for each in environment.clusters.values())
    leads_out = access.allowed or network.existing or network.peerings
    if not (leads_out or access.gateway or has_host):
        yield Fault(
            "nothing outside the network reaches Batch and storage: you cannot submit jobs "
            "from your machine",
            "add `gateway: true`, or the public ranges that you work from as `allowed: [...]`",
            ("access",),
        )


@check("no-way-in", Severity.WARNING, Subject.ENVIRONMENT)
def no_way_in(environment: Environment) -> Iterator[Fault]:
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
        yield Fault(
            "jobs reach these clusters over SSH, and `access:` admits nobody",
            "add `bastion: true`, or the ranges that you work from as `allowed: [...]`",
            ("access",),
        )
