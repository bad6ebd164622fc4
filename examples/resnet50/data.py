"""Batches for one process, on its device and ready for the network."""

from collections.abc import Iterator

import torch
from images import ImageList
from loader import Batches, load
from options import Options
from torch import Tensor

# Of ImageNet's pixels from 0 to 1: red, green, blue.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Batch = tuple[Tensor, Tensor]  # images (n, 3, size, size) in channels_last; classes (n)


def synthetic(options: Options, device: torch.device, rank: int) -> Iterator[Batch]:
    """Yields the same random batch of images and classes for all steps, so that no step waits for
    data."""
    generator = torch.Generator().manual_seed(options.seed + 1 + rank)
    size = options.image_size
    images = torch.randn(options.batch_size, 3, size, size, generator=generator)
    labels = torch.randint(options.classes, (options.batch_size,), generator=generator)
    batch = images.to(device, memory_format=torch.channels_last), labels.to(device)
    while True:
        yield batch


def from_images(
    options: Options, found: ImageList, device: torch.device, batches: Batches
) -> Iterator[Batch]:
    """Yields the images of a folder, copied to the device as bytes and converted there."""
    mean = torch.tensor(MEAN, device=device).view(3, 1, 1) * 255
    deviation = torch.tensor(DEVIATION, device=device).view(3, 1, 1) * 255
    for images, labels in load(found, batches, options.image_size, options.workers):
        pixels = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        yield (pixels - mean) / deviation, labels.to(device, non_blocking=True)


def batches(
    options: Options,
    found: ImageList | None,
    device: torch.device,
    *,
    rank: int,
    size: int,
    first_step: int = 0,
) -> Iterator[Batch]:
    """Yields one process's batches from `first_step` on, for ever."""
    if found is None:
        return synthetic(options, device, rank)
    picks = Batches(
        len(found.paths),
        options.batch_size,
        rank=rank,
        size=size,
        seed=options.seed,
        first_step=first_step,
    )
    return from_images(options, found, device, picks)
