"""The images of each process at each step, and the worker processes that read them."""

import os
from collections.abc import Iterator

import torch
from errors import UserError
from images import ImageList, Images, Pick
from torch import Tensor
from torch.utils.data import DataLoader, Sampler


class Batches(Sampler[list[Pick]]):
    """Indices of one process's images at each step from `first_step` on, for ever.

    An epoch is an order of all the images, cut into steps and those into shares; the remainder at
    its end is left out until another epoch's order. Everything follows from seed and step, so a
    stopped training continues with the images that it would have had.
    """

    def __init__(
        self, count: int, batch: int, *, rank: int, size: int, seed: int, first_step: int
    ) -> None:
        self.count, self.batch, self.rank, self.size = count, batch, rank, size
        self.seed, self.first_step = seed, first_step
        self.steps = count // (batch * size)  # in an epoch
        if not self.steps:
            raise UserError(
                f"there are {count} images, fewer than the {batch * size} of one step;"
                " take a smaller --batch-size"
            )

    def __iter__(self) -> Iterator[list[Pick]]:
        step = self.first_step
        while True:
            epoch, start = divmod(step, self.steps)
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            order = torch.randperm(self.count, generator=generator)
            seeds = torch.randint(2**62, (self.count,), generator=generator)
            for here in range(start, self.steps):
                begin = (here * self.size + self.rank) * self.batch
                mine = slice(begin, begin + self.batch)
                yield list(zip(order[mine].tolist(), seeds[mine].tolist(), strict=True))
            step = (epoch + 1) * self.steps


def load(
    images: ImageList, batches: Batches, image_size: int, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of bytes (n, 3, size, size) and of classes (n), read by `workers`
    processes."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise UserError("Pillow reads the images: pip install pillow") from error
    return iter(
        DataLoader(
            Images(images, image_size),
            batch_sampler=batches,
            num_workers=workers,
            # A fork would be a copy of a process that holds a GPU and InfiniBand.
            multiprocessing_context="spawn" if workers else None,
            worker_init_fn=_leave_session,
            pin_memory=torch.cuda.is_available(),
        )
    )


def _leave_session(_worker: int) -> None:
    """Moves this process out of reach of signals to all of the training's processes.

    The training stops at its next report, and needs its images until then. A reader without its
    training ends by itself within seconds.
    """
    os.setsid()
