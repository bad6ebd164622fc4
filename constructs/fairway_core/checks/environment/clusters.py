"""Rules on clusters and on the file systems that they read from: retiring sizes, unused InfiniBand,
images without a version, available disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import Image, limit, vm_size
from fairway_core.catalog.disks import disk_kind
from fairway_core.catalog.limits import regions, regions_without_zones
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.findings import Severity, counted

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from fairway_core.catalog import VmSize
    from fairway_core.checks.check import Match
    from fairway_core.environment import Environment
    from fairway_core.environment.filesystems.base import FileSystem


def _sizes(environment: Environment) -> Iterator[Match]:
    """Yields every VM size in the file: `size`."""
    for section in ("clusters", "filesystems"):
        for name, item in getattr(environment, section).items():
            if size := getattr(item, "size", None):
                yield (section, name, "size"), {"size": vm_size(size)}
    for section, manager in environment.managers.items():
        for path, size in manager.sizes.items():
            yield (section, *path), {"size": vm_size(size)}
    if size := environment.access.gateway_size:
        yield ("access", "gateway", "size"), {"size": vm_size(size)}


def _dated(environment: Environment, today: datetime.date) -> Iterator[Match]:
    """Yields every VM size in the file, and every cluster's image, or the image that the user's own
    was made from: `kept`, and the date of `today`."""
    for path, arguments in _sizes(environment):
        yield path, {"kept": arguments["size"], "today": today}
    for name, cluster in environment.machine_clusters.items():
        own = "image_id" if cluster.image_id else "image"
        yield ("clusters", name, own), {"kept": cluster.chosen_image, "today": today}


def _clusters(environment: Environment) -> Iterator[Match]:
    """Yields every cluster: `size`, and `nodes`, the maximum for one job."""
    for name, each in environment.clusters.items():
        yield ("clusters", name), {"size": vm_size(each.size), "nodes": each.nodes_of_a_job}


@check("retiring", Severity.WARNING, Subject.ENVIRONMENT, select=_dated)
def retiring(kept: VmSize | Image, today: datetime.date) -> Iterator[Violation]:
    """A VM size that Azure switches off within a year, or an image that ends within half of one.

    An image ends with its operating system: Azure Batch then makes no more nodes of it, nor of
    your own image that was made from it (`image_id`), and on other engines its packages get no more
    security updates. A size that is off already is an error when the file is read.

    Wrong:
        clusters: {cpu: {engine: ssh, size: Standard_HC44rs, nodes: 2, mounts: [data]}}

    Right:
        clusters: {cpu: {engine: ssh, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}}
    """
    end = kept.retirement_date
    if end is None:
        return
    if isinstance(kept, Image):
        # Half a year: long enough to try jobs on another operating system.
        if (end - today).days <= 183:
            verb = "retires" if today < end else "retired"
            hint = f"its successor is `{kept.successor}`; try your jobs on one node of it first"
            yield Violation(f"image `{kept.alias}` {verb} on {end}", hint)
    # Long enough to move to another size, and to ask for its quota.
    elif 0 < (end - today).days <= 365:
        yield Violation(f"`{kept.name}` retires on {end}", _take(kept.successor))


@check("no-new-capacity", Severity.WARNING, Subject.ENVIRONMENT, select=_sizes)
def no_new_capacity(size: VmSize) -> Iterator[Violation]:
    """A VM size that Azure still runs but no longer expands: it may refuse new quota.

    Wrong:
        clusters: {box: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1}}

    Right:
        clusters: {box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
    """
    if size.status == "no-new-capacity":
        yield Violation(f"Azure adds no new capacity for `{size.name}`", _take(size.successor))


def _take(successor: str) -> str:
    return f"its successor is `{successor}`" if successor else "choose another: fairway sizes"


@check("no-infiniband", Severity.ERROR, Subject.ENVIRONMENT, select=_clusters)
def no_infiniband(size: VmSize, nodes: int) -> Iterator[Violation]:
    """Several nodes that run jobs together, of a size without InfiniBand.

    MPI and NCCL fall back to Ethernet, which is many times slower. Near names differ by a
    letter: ND96isr has InfiniBand, ND96is has not. A Batch pool with `mpi: false`, on which
    each job takes one node, needs none, nor do node pools of Kubernetes. Where Ethernet is meant,
    or each job of Slurm takes one node, ignore this check.

    Wrong:
        clusters: {pair: {engine: ssh, size: Standard_ND96is_H100_v5, nodes: 2, mounts: [data]}}

    Right:
        clusters: {pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}}
    """
    if nodes > 1 and not size.rdma:
        hint = "`fairway sizes --rdma` lists the sizes that have it"
        if size.rdma_variant:
            hint = f"`{size.rdma_variant}` has it"
        hint += (
            "\nwhere each job takes one node, or Ethernet is enough, ignore this check; "
            "a Batch pool may be without `mpi`"
        )
        yield Violation(f"{nodes} nodes of `{size.name}` have no InfiniBand between them", hint)


@check("no-imex", Severity.ERROR, Subject.ENVIRONMENT, select=_clusters)
def no_imex(size: VmSize, nodes: int) -> Iterator[Violation]:
    """Several nodes of a size whose GPUs reach other nodes' over NVLink.

    That needs NVIDIA's IMEX service on each node of a job, with the addresses of the others,
    started before the job. No engine of Fairway starts it, and NCCL fails without it, or leaves
    NVLink. If an image of your own starts it, ignore this check.

    Wrong:
        clusters: {pair: {engine: ssh, size: Standard_ND128isr_GB300_v6, nodes: 2, mounts: [data]}}

    Right:
        clusters: {pair: {engine: ssh, size: Standard_ND96isr_H200_v5, nodes: 2, mounts: [data]}}
    """
    if nodes > 1 and size.nvlink_nodes > 1:
        yield Violation(
            f"nothing starts nvidia-imex on the nodes of `{size.name}`, and NCCL needs it "
            "between them",
            "use one node, or a size whose nodes meet over InfiniBand alone: fairway sizes --rdma",
        )


@check("unused-infiniband", Severity.WARNING, Subject.ENVIRONMENT, select=_clusters)
def unused_infiniband(size: VmSize, nodes: int) -> Iterator[Violation]:
    """A size with InfiniBand for jobs of one node: you pay for a fabric that is not used.

    Wrong:
        clusters: {box: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 1}}

    Right:
        clusters: {box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
    """
    if nodes == 1 and size.rdma:
        yield Violation(
            f"jobs on one node do not use the InfiniBand of `{size.name}`",
            "let them use several nodes, or choose a size without it: fairway sizes",
        )


@check("floating-image", Severity.WARNING, Subject.ENVIRONMENT)
def floating_image(environment: Environment) -> Iterator[Violation]:
    """An image without an exact version: nodes that come later may get another one.

    Wrong:
        clusters: {pair: {image: microsoft-dsvm:ubuntu-hpc:2404:latest}}

    Right:
        clusters: {pair: {image: ubuntu-hpc-2404}}
    """
    for name, cluster in environment.machine_clusters.items():
        image = cluster.chosen_image
        # A user's own image has its version in its id.
        if not cluster.image_id and not image.pinned:
            urn = f"{image.publisher}:{image.offer}:{image.sku}"
            yield Violation(
                f"image `{image.alias}` has no exact version",
                f"az vm image list --all -p {image.publisher} -f {image.offer} -s {image.sku}\n"
                f"and name one: `image: {urn}:VERSION`",
                ("clusters", name, "image"),
            )


@check("spot-without-mounts", Severity.WARNING, Subject.ENVIRONMENT)
def spot_without_mounts(environment: Environment) -> Iterator[Violation]:
    """Spot nodes without a shared file system: checkpoints go with the node that Azure takes.

    The next attempt of a task then begins anew. Tasks that are short enough for that need none.

    Wrong:
        clusters: {sweep: {engine: batch, spot: true, mounts: []}}

    Right:
        clusters: {sweep: {engine: batch, spot: true, mounts: [data]}}
    """
    for name, cluster in environment.clusters.items():
        holders = (environment.filesystems[mount].holds_runs for mount in cluster.mounts)
        if cluster.spot and not any(holders):
            yield Violation(
                "checkpoints go with a Spot node that Azure takes away: it mounts no file system",
                "describe one under `filesystems:` and mount it, for example `mounts: [data]`; "
                "where tasks are short, ignore this check",
                ("clusters", name, "spot"),
            )


def _filesystems(environment: Environment) -> Iterator[Match]:
    """Yields file systems with the GPUs that read from them; a cluster reads from its fastest."""
    filesystems = environment.filesystems
    readers = dict.fromkeys(filesystems, 0)
    for cluster in environment.clusters.values():
        gpu = vm_size(cluster.size).gpu
        if gpu and cluster.mounts:
            fastest = max(cluster.mounts, key=lambda name: filesystems[name].throughput_mbps)
            readers[fastest] += gpu.count * cluster.node_range.max
    for name, filesystem in filesystems.items():
        yield ("filesystems", name), {"filesystem": filesystem, "gpus": readers[name]}


@check("starved-gpus", Severity.WARNING, Subject.ENVIRONMENT, select=_filesystems)
def starved_gpus(filesystem: FileSystem, gpus: int) -> Iterator[Violation]:
    """A file system too slow for the GPUs of all the clusters that read from it.

    A cluster is assumed to read from the fastest of the file systems that it mounts.
    What an NFS server gives is the least of its disks together, the disk limit of its VM size
    and its network interface; what others give comes with their size. What a GPU reads is in
    the catalogue as `gpu_read_mbps`.

    Wrong:
        clusters: {nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}}

    Right:
        filesystems: {data: {size: Standard_D96s_v6, disks: {count: 12, iops: 5000, mbps: 500}}}
        clusters: {nd: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 12, mounts: [data]}}
    """
    binding, gives = filesystem.limited_by, filesystem.throughput_mbps
    wanted = gpus * limit("gpu_read_mbps")
    if gives < wanted:
        give = "give" if binding.endswith("disks") else "gives"
        raised = filesystem.raised_by.get(binding, "raise that limit")
        yield Violation(
            f"{counted(gpus, 'GPU')} can read up to {wanted} MB/s, and {binding} {give} "
            f"{gives} MB/s",
            f"{raised}, or keep the data on the nodes' own NVMe disks",
        )


@check("disks-need-a-zone", Severity.WARNING, Subject.ENVIRONMENT)
def disks_need_a_zone(environment: Environment) -> Iterator[Violation]:
    """Premium SSD v2 or Ultra disks outside of a zone, in a region that may have zones.

    In a region with zones Azure makes them in a zone only; in one without it makes them as they
    are. A warning, as it is not known of every region whether it has any.

    Wrong:
        zone: none
        filesystems: {data: {disks: {kind: premium_v2}}}

    Right:
        location: northcentralus
        zone: none
        filesystems: {data: {disks: {kind: premium_v2}}}
    """
    location = environment.location
    if environment.zone_number or location not in regions() - regions_without_zones():
        return
    for name, each in environment.filesystems.items():
        if each.data_disks and disk_kind(each.data_disks).zonal:
            yield Violation(
                f"if {location} has availability zones, Azure makes `{each.data_disks}` disks only "
                "in a zone",
                "use `disks: {kind: premium}`, or name a zone",
                ("filesystems", name),
            )
