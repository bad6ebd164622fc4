"""Rules on a job and the nodes that it gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.catalog import VmSize
    from fairway_core.checks.check import JobSubject, Occurrence

# As in `pytorch:2.4.0-cuda12.4-cudnn9` and `nvidia/cuda:12.4.1-base`.
_CUDA = re.compile(r"cuda[-:_]?(\d+)\.(\d+)", re.IGNORECASE)


def _jobs(subject: JobSubject) -> Iterator[Occurrence]:
    job = subject.job
    yield (
        (),
        {
            "spot": subject.target.spot,
            "nodes": job.get("nodes", 1),
            "goes_on": bool((job.get("retries") or job.get("retry")) and job.get("checkpoint")),
        },
    )


@check("spot-without-checkpoint", Severity.WARNING, Subject.JOB, at=_jobs)
def spot_without_checkpoint(spot: bool, nodes: int, goes_on: bool) -> Iterator[Fault]:
    """Several Spot nodes, and a job that would start over when one of them is taken away.

    The more nodes, the sooner that happens: all of them lose what they did.

    Wrong:
        nodes: 8

    Right:
        nodes: 8
        retries: 10
        checkpoint: {directory: "data:/checkpoints/train"}
    """
    if spot and nodes > 1 and not goes_on:
        yield Fault(
            f"the loss of one of {nodes} Spot nodes ends the job, and its work is lost",
            "add `retries:` and `checkpoint:`, and resume from the files in FAIRWAY_CHECKPOINT_DIR",
            ("nodes",),
        )


def _known_size(name: str | None) -> VmSize | None:
    """The size as the catalogue has it; None where that, or the target, does not."""
    if not name:
        return None
    from fairway_core.catalog import vm_size, vm_sizes  # much to read for a target without a size

    return vm_size(name) if name in vm_sizes() else None


def _images(subject: JobSubject) -> Iterator[Occurrence]:
    container, name = subject.job.get("container"), subject.target.vm_size
    if container and (size := _known_size(name)):
        yield ("container", "image"), {"image": container["image"], "size": size}


@check("old-cuda", Severity.ERROR, Subject.JOB, at=_images)
def old_cuda(image: str, size: VmSize) -> Iterator[Fault]:
    """A container whose tag names a CUDA older than the GPUs: it has no code for them.

    Wrong:
        container: {image: "pytorch/pytorch:1.11.0-cuda11.3-cudnn8-runtime"}

    Right:
        container: {image: "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"}
    """
    from fairway_core.catalog.gpu_faults import least_cuda

    gpu, named = size.gpu, _CUDA.search(image)
    least = least_cuda(gpu.architecture) if gpu else None
    if gpu and least and named and (int(named[1]), int(named[2])) < least:
        yield Fault(
            f"CUDA {named[1]}.{named[2]} does not support the {gpu.model} of `{size.name}`",
            f"use an image with CUDA {least[0]}.{least[1]} or newer",
        )


def _sharp(subject: JobSubject) -> Iterator[Occurrence]:
    options, name = subject.job.get("options") or {}, subject.target.vm_size
    if options.get("sharp") is True and (size := _known_size(name)):
        yield ("options", "sharp"), {"size": size}


@check("no-sharp", Severity.WARNING, Subject.JOB, at=_sharp)
def no_sharp(size: VmSize) -> Iterator[Fault]:
    """In-network reduction (SHARP) on nodes for which Fairway knows no settings.

    The job runs as without it. Of today's sizes ND H100 v5 and ND H200 v5 have it.

    Wrong:
        template: torchrun
        options: {sharp: true}

    Right:
        template: torchrun
        options: {sharp: false}
    """
    from fairway_core.catalog import fabric_for

    if not (size.rdma and fabric_for(size).sharp):
        yield Fault(
            f"`sharp: true` has no effect on {size.name}: no settings for it are known",
            "leave it out, or use nodes of the ND H100 v5 or ND H200 v5 series",
        )
