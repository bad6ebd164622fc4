"""Takes an environment apart into the plain arguments of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import vm_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import EnvironmentSubject, Occurrence


def sizes(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every VM size that is named: `size`."""
    environment, slurm = subject.environment, subject.environment.scheduler
    for section in ("clusters", "filesystems"):
        for name, item in getattr(environment, section).items():
            if size := getattr(item, "size", None):
                yield (section, name, "size"), {"size": vm_size(size)}
    if slurm is not None:
        yield ("slurm", "scheduler_size"), {"size": vm_size(slurm.scheduler_size)}
        if slurm.login is not None:
            yield ("slurm", "login", "size"), {"size": vm_size(slurm.login.size)}
    if size := environment.access.gateway_size:
        yield ("access", "gateway", "size"), {"size": vm_size(size)}


def dated(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every VM size that is named, and every image that a cluster gets, or that one of the user's
    own was made from: `kept`, and the date of `today`."""
    for path, arguments in sizes(subject):
        yield path, {"kept": arguments["size"], "today": subject.today}
    for name, cluster in subject.environment.machine_clusters.items():
        own = "image_id" if cluster.image_id else "image"
        yield ("clusters", name, own), {"kept": cluster.chosen_image, "today": subject.today}


def clusters(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every cluster: `size`, and `nodes`, the most that one job may take."""
    for name, cluster in subject.environment.clusters.items():
        facts = {"size": vm_size(cluster.size), "nodes": cluster.nodes_of_a_job}
        yield ("clusters", name), facts


def images(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every image that a cluster gets: `image`."""
    for name, cluster in subject.environment.machine_clusters.items():
        # A user's own image has its version in its id.
        if not getattr(cluster, "image_id", None):
            yield ("clusters", name, "image"), {"image": cluster.chosen_image}


def pool_images(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every image of Azure's that a Batch pool gets: `size`, `image`."""
    for name, cluster in subject.environment.clusters.items():
        if cluster.engine == "batch" and not cluster.image_id:
            size, image = vm_size(cluster.size), cluster.chosen_image
            yield ("clusters", name, "image"), {"size": size, "image": image}


def slurm_images(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every image of a cluster with Slurm: `size`, `image`."""
    for name, cluster in subject.environment.clusters.items():
        if cluster.engine == "slurm":
            size, image = vm_size(cluster.size), cluster.chosen_image
            yield ("clusters", name, "image"), {"size": size, "image": image}


def idle_times(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """How long nodes of Slurm stay that nobody needs: `idle`, in seconds."""
    if subject.environment.scheduler is not None:
        yield ("slurm", "idle"), {"idle": subject.environment.scheduler.idle}
