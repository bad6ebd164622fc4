"""Rules on clusters of Slurm and of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import images, kubernetes_ends, vm_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.environment import occurrences
from fairway_core.findings import Severity

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from fairway_core.catalog import Image, VmSize
    from fairway_core.checks.check import EnvironmentSubject, Occurrence
    from fairway_core.environment.kubernetes import UpgradeWindow

# What nodes with an HPC image need at least, drivers and all.
_BOOT_SECONDS = 300


@check("slurm-image", Severity.ERROR, Subject.ENVIRONMENT, at=occurrences.slurm_images)
def slurm_image(size: VmSize, image: Image) -> Iterator[Fault]:
    """An image whose distribution has no Slurm that fits the scheduler's.

    Nodes have the scheduler's packages, which are of Ubuntu 24.04, wherever `slurm.packages` says
    that they come from. Ubuntu 22.04 has 21.08, which knows neither nodes that come and go as these
    do nor today's control groups, and Enterprise Linux has none.

    Wrong:
        clusters:
          nd:
            engine: slurm
            size: Standard_ND96isr_H100_v5
            nodes: {min: 0, max: 4}
            image: ubuntu-hpc-2204
            mounts: [data]

    Right:
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}
    """
    if image.slurm:
        return
    fitting = [each.alias for each in images().values() if each.slurm and each.fits(size)]
    hint = f"use `image: {fitting[0]}`" if fitting else "use another size, or `engine: ssh`"
    yield Fault(f"image `{image.alias}` is not of Ubuntu 24.04, as the scheduler is", hint)


@check("short-idle", Severity.WARNING, Subject.ENVIRONMENT, at=occurrences.idle_times)
def short_idle(idle: float) -> Iterator[Fault]:
    """Nodes that are deleted sooner than Azure could bring new ones.

    A node of an HPC image takes five to ten minutes to boot. Where the queue is empty for a
    moment only, waiting for the next job costs less than that.

    Wrong:
        slurm: {idle: 2m}
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}

    Right:
        slurm: {idle: 10m}
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}
    """
    if idle < _BOOT_SECONDS:
        yield Fault(
            f"idle nodes are deleted after {idle:.0f} s, and a new one takes longer to start",
            "for example `idle: 10m`",
        )


# Three months: long enough to try jobs on another version.
_NOTICE_DAYS = 92


def _fast_pools(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every node pool of a size with InfiniBand: `least` nodes, and whether it `offers` that."""
    for name, pool in subject.environment.node_pools.items():
        if vm_size(pool.size).rdma:
            yield (
                ("clusters", name, "nodes"),
                {"least": pool.node_range.min, "asked": pool.infiniband},
            )


@check("infiniband-from-zero", Severity.WARNING, Subject.ENVIRONMENT, at=_fast_pools)
def infiniband_from_zero(least: int, asked: bool | None) -> Iterator[Fault]:
    """A node pool of Kubernetes that may have no nodes, of a size with InfiniBand.

    AKS starts nodes for what pods ask for and a node would offer. Of a pool without nodes it knows
    the GPUs by the size; whether it knows the InfiniBand adapters nobody has verified. Where it
    does not, jobs that ask for them wait for ever.

    Wrong:
        kubernetes: {upgrades: {}}
        clusters:
          nd:
            engine: kubernetes
            size: Standard_ND96isr_H100_v5
            nodes: {min: 0, max: 4}
            mounts: [data]
            job_image: train:1

    Right:
        kubernetes: {upgrades: {}}
        clusters:
          nd:
            engine: kubernetes
            size: Standard_ND96isr_H100_v5
            nodes: {min: 1, max: 4}
            mounts: [data]
            job_image: train:1
    """
    if least > 0 or asked is False:
        return
    if asked:
        yield Fault(
            "it is not verified that AKS starts a node for InfiniBand in a pool that has none",
            "try whether a job on it starts, and then ignore this check; or keep a node: `min: 1`",
        )
        return
    yield Fault(
        "jobs on it get no InfiniBand: AKS may not start a first node for it",
        "keep a node: `min: 1`; or try `infiniband: true`; or set `infiniband: false`",
    )


def _version(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """The version of Kubernetes, where one is named: its `end`, and the date of `today`."""
    spec = subject.environment.orchestrator
    end = kubernetes_ends().get(spec.version or "") if spec else None
    if end:
        yield ("kubernetes", "version"), {"end": end, "today": subject.today}


@check("ending-kubernetes", Severity.WARNING, Subject.ENVIRONMENT, at=_version)
def ending_kubernetes(end: datetime.date, today: datetime.date) -> Iterator[Fault]:
    """A version of Kubernetes that Azure supports for three months more, or less.

    After that it makes no new cluster of it, and repairs none.

    Wrong:
        kubernetes: {version: "1.34", upgrades: {}}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}

    Right:
        kubernetes: {version: "1.36", upgrades: {}}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}
    """
    if 0 <= (end - today).days <= _NOTICE_DAYS:
        yield Fault(f"Azure supports this version of Kubernetes until {end}", _later(today))


@check("ended-kubernetes", Severity.ERROR, Subject.ENVIRONMENT, at=_version)
def ended_kubernetes(end: datetime.date, today: datetime.date) -> Iterator[Fault]:
    """A version of Kubernetes that Azure no longer supports: it makes no new cluster of it.

    A cluster that is there goes on, without repairs. To deploy to it before you can upgrade it,
    ignore this check.

    Wrong:
        kubernetes: {version: "1.33", upgrades: {}}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}

    Right:
        kubernetes: {version: "1.36", upgrades: {}}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}
    """
    if end < today:
        yield Fault(f"Azure supported this version of Kubernetes until {end}", _later(today))


def _updates(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """When Azure may update the cluster: `upgrades`, None for never."""
    spec = subject.environment.orchestrator
    if spec is not None:
        yield ("kubernetes", "upgrades"), {"upgrades": spec.upgrades}


@check("no-node-updates", Severity.WARNING, Subject.ENVIRONMENT, at=_updates)
def no_node_updates(upgrades: UpgradeWindow | None) -> Iterator[Fault]:
    """Nodes of Kubernetes that get no security updates, because Azure may not update them.

    Where you update nodes yourself, when no job runs, ignore this check.

    Wrong:
        kubernetes: {version: "1.36"}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}

    Right:
        kubernetes: {version: "1.36", upgrades: {day: Sunday, start: "01:00"}}
        clusters:
          cpu:
            {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}
    """
    if upgrades is None:
        yield Fault(
            "nodes of Kubernetes get no security updates: Azure updates none of them by itself",
            'say when it may: `kubernetes: {upgrades: {day: Sunday, start: "01:00"}}`, in UTC\n'
            "or update each pool yourself, and ignore this check: az aks nodepool upgrade "
            "--resource-group GROUP --cluster-name NAME --name POOL --node-image-only",
        )


def _pod_waits(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Minutes after which Kueue takes a job back, `wait`, and the `longest` that its pods wait."""
    from fairway_agent.kubernetes.settings import patience

    spec = subject.environment.orchestrator
    if spec is not None and spec.wait_for_pods is not None:
        ranges = [pool.node_range for pool in subject.environment.node_pools.values()]
        longest = max(patience(each.min, each.max) for each in ranges)
        minutes = {"wait": spec.wait_for_pods / 60, "longest": longest / 60}
        yield ("kubernetes", "wait_for_pods"), minutes


@check("short-pod-wait", Severity.WARNING, Subject.ENVIRONMENT, at=_pod_waits)
def short_pod_wait(wait: float, longest: float) -> Iterator[Fault]:
    """A job that Kueue takes back while its nodes are started and its first pods wait for others.

    It ends the pods that run, and the job queues again; the nodes may then be deleted unused.

    Wrong:
        kubernetes: {wait_for_pods: 20m, upgrades: {}}
        clusters:
          cpu:
            engine: kubernetes
            size: Standard_D16s_v6
            nodes: {min: 1, max: 4}
            mounts: [data]
            job_image: train:1

    Right:
        kubernetes: {wait_for_pods: 50m, upgrades: {}}
        clusters:
          cpu:
            engine: kubernetes
            size: Standard_D16s_v6
            nodes: {min: 1, max: 4}
            mounts: [data]
            job_image: train:1
    """
    if wait < longest:
        yield Fault(
            f"Kueue takes a job back after {wait:g} minutes, and its pods wait {longest:g} for "
            "each other, because nodes may take as long",
            f"`wait_for_pods: {longest:g}m` or more, or leave it out",
        )


def _later(today: datetime.date) -> str:
    """The versions that are supported for longer than the notice, with their last days."""
    later = [
        f'"{version}" ends on {end}'
        for version, end in kubernetes_ends().items()
        if (end - today).days > _NOTICE_DAYS
    ]
    listed = "; ".join([*later, "your region's: az aks get-versions --location REGION"])
    return f"{listed}\nupgrade a cluster that is there by one minor version at a time"
