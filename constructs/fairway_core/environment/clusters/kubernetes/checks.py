"""Checks of node pools and their Kubernetes cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import kubernetes_ends, vm_size
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from fairway_core.environment import Environment

# Three months: long enough to try jobs on another version.
_NOTICE_DAYS = 92


@check("infiniband-from-zero", Severity.WARNING, Subject.ENVIRONMENT)
def infiniband_from_zero(environment: Environment) -> Iterator[Violation]:
    """A node pool of Kubernetes that may have no nodes, of a size with InfiniBand.

    AKS starts nodes for what pods ask for and a node would offer. Of a pool without nodes it knows
    the GPUs by the size; whether it knows the InfiniBand adapters nobody has verified. Where it
    does not, jobs that ask for them wait for ever.

    Wrong:
        clusters: {a: {engine: kubernetes, size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 2}}}

    Right:
        clusters: {a: {engine: kubernetes, size: Standard_ND96isr_H100_v5, nodes: {min: 1, max: 2}}}
    """
    for name, pool in environment.node_pools.items():
        if not vm_size(pool.size).rdma or pool.node_range.min > 0 or pool.infiniband is False:
            continue
        message = "jobs on it get no InfiniBand: AKS may not start a first node for it"
        hint = "keep a node: `min: 1`; or try `infiniband: true`; or set `infiniband: false`"
        if pool.infiniband:
            message = (
                "it is not verified that AKS starts a node for InfiniBand in a pool that has none"
            )
            hint = (
                "try whether a job on it starts, and then ignore this check; or keep a node: "
                "`min: 1`"
            )
        yield Violation(message, hint, ("clusters", name, "nodes"))


@check("unknown-kubernetes", Severity.WARNING, Subject.ENVIRONMENT)
def unknown_kubernetes(environment: Environment) -> Iterator[Violation]:
    """A version of Kubernetes that the catalogue does not know: a typo, or newer than Fairway.

    Wrong:
        kubernetes: {version: "1.63"}

    Right:
        kubernetes: {version: "1.36"}
    """
    spec = environment.aks
    if spec is not None and spec.version is not None and spec.version not in kubernetes_ends():
        yield Violation(
            f"Kubernetes {spec.version} is not known: the newest is {list(kubernetes_ends())[-1]}",
            "if your region has it, ignore this check: az aks get-versions --location "
            f"{environment.location}",
            ("kubernetes", "version"),
        )


@check("ending-kubernetes", Severity.WARNING, Subject.ENVIRONMENT)
def ending_kubernetes(environment: Environment, today: datetime.date) -> Iterator[Violation]:
    """A version of Kubernetes that Azure supports for three months more, or less.

    After that it makes no new cluster of it, and repairs none.

    Wrong:
        kubernetes: {version: "1.34"}

    Right:
        kubernetes: {version: "1.36"}
    """
    end = _end_of_version(environment)
    if end and 0 <= (end - today).days <= _NOTICE_DAYS:
        yield _violation(f"Azure supports this version of Kubernetes until {end}", today)


@check("ended-kubernetes", Severity.ERROR, Subject.ENVIRONMENT)
def ended_kubernetes(environment: Environment, today: datetime.date) -> Iterator[Violation]:
    """A version of Kubernetes that Azure no longer supports: it makes no new cluster of it.

    A cluster that is there goes on, without repairs. To deploy to it before you can upgrade it,
    ignore this check.

    Wrong:
        kubernetes: {version: "1.33"}

    Right:
        kubernetes: {version: "1.36"}
    """
    end = _end_of_version(environment)
    if end and end < today:
        yield _violation(f"Azure supported this version of Kubernetes until {end}", today)


@check("no-node-updates", Severity.WARNING, Subject.ENVIRONMENT)
def no_node_updates(environment: Environment) -> Iterator[Violation]:
    """Nodes of Kubernetes that get no security updates, because Azure may not update them.

    Where you update nodes yourself, when no job runs, ignore this check.

    Wrong:
        kubernetes: {upgrades: null}

    Right:
        kubernetes: {upgrades: {day: Sunday, start: "01:00"}}
    """
    spec = environment.aks
    if spec is not None and spec.upgrades is None:
        yield Violation(
            "nodes of Kubernetes get no security updates: Azure updates none of them by itself",
            'say when it may: `kubernetes: {upgrades: {day: Sunday, start: "01:00"}}`, in UTC\n'
            "or update each pool yourself, and ignore this check: az aks nodepool upgrade "
            "--resource-group GROUP --cluster-name NAME --name POOL --node-image-only",
            ("kubernetes", "upgrades"),
        )


@check("no-kubernetes-patches", Severity.WARNING, Subject.ENVIRONMENT)
def no_kubernetes_patches(environment: Environment) -> Iterator[Violation]:
    """`upgrades` beside a Spot pool, where Azure patches nodes but not Kubernetes itself.

    AKS refuses to update Kubernetes in the control plane and in pools at once where one is of Spot
    nodes. Where you change `kubernetes.version` yourself, ignore this check.

    Wrong:
        kubernetes: {upgrades: {day: Sunday, start: "01:00"}}
        clusters: {cpu: {engine: kubernetes, spot: true}}

    Right:
        kubernetes: {upgrades: {day: Sunday, start: "01:00"}}
        clusters: {cpu: {engine: kubernetes}}
    """
    spec = environment.aks
    spot = [f"`{name}`" for name, pool in environment.node_pools.items() if pool.spot]
    if spec is not None and spec.upgrades is not None and spot:
        yield Violation(
            "Azure patches nodes in these hours, but Kubernetes itself it does not, beside the "
            f"Spot pool {' and '.join(spot)}",
            "update it yourself with `kubernetes.version`, and ignore this check\n"
            "or give Spot nodes an environment of their own",
            ("kubernetes", "upgrades"),
        )


@check("short-pod-wait", Severity.WARNING, Subject.ENVIRONMENT)
def short_pod_wait(environment: Environment) -> Iterator[Violation]:
    """A job that Kueue takes back while its nodes are started and its first pods wait for others.

    It ends the pods that run, and the job queues again; the nodes may then be deleted unused.

    Wrong:
        kubernetes: {wait_for_pods: 20m}
        clusters: {cpu: {engine: kubernetes, nodes: {min: 1, max: 4}}}

    Right:
        kubernetes: {wait_for_pods: 50m}
        clusters: {cpu: {engine: kubernetes, nodes: {min: 1, max: 4}}}
    """
    spec = environment.aks
    if spec is None or spec.wait_for_pods is None:
        return
    from fairway_agent.kubernetes.settings import patience

    ranges = [pool.node_range for pool in environment.node_pools.values()]
    wait, longest = spec.wait_for_pods / 60, max(patience(r.min, r.max) for r in ranges) / 60
    if wait < longest:
        yield Violation(
            f"Kueue takes a job back after {wait:g} minutes, and its pods wait {longest:g} for "
            "each other, because nodes may take as long",
            f"`wait_for_pods: {longest:g}m` or more, or leave it out",
            ("kubernetes", "wait_for_pods"),
        )


def _end_of_version(environment: Environment) -> datetime.date | None:
    """Returns the end of support of the given version of Kubernetes, or None without one."""
    spec = environment.aks
    return kubernetes_ends().get(spec.version or "") if spec else None


def _violation(message: str, today: datetime.date) -> Violation:
    """Returns a violation of the version, with a hint on versions that are supported for longer."""
    later = [
        f'"{version}" ends on {end}'
        for version, end in kubernetes_ends().items()
        if (end - today).days > _NOTICE_DAYS
    ]
    listed = "; ".join([*later, "your region's: az aks get-versions --location REGION"])
    hint = f"{listed}\nupgrade a cluster that is there by one minor version at a time"
    return Violation(message, hint, ("kubernetes", "version"))
