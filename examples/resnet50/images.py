"""A folder of images, one folder a class inside it, as ImageNet is unpacked.

Read with Pillow and changed at random as networks for ImageNet are trained: a piece of 8 to
100 % of the image, mirrored or not, scaled to a square.
"""

import math
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from errors import UserError
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

ENDINGS = (".jpg", ".jpeg", ".png")
MOST_SEEDS = 2**63
Pick = tuple[int, int]  # the number of an image, and the seed of how it is changed


@dataclass(frozen=True)
class ImageList:
    """The images below a root: their paths from there, and the numbers of their classes."""

    root: str
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    labels: tuple[int, ...]


def find_images(root: str) -> ImageList:
    """Every image of every class; classes and images in the order of their names."""
    try:
        classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(classes):
            found = [each for each in os.listdir(os.path.join(root, name))]
            names = sorted(each for each in found if each.lower().endswith(ENDINGS))
            if not names:
                raise UserError(f"{root}/{name} holds no image ({', '.join(ENDINGS)})")
            paths += [f"{name}/{each}" for each in names]
            labels += [label] * len(names)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    if not paths:
        raise UserError(f"{root} holds no folders; each class needs one, with its images in it")
    return ImageList(root, tuple(classes), tuple(paths), tuple(labels))


def random_piece(width: int, height: int, seed: int) -> tuple[tuple[float, ...], bool]:
    """A piece of an image as (left, top, right, bottom) in pixels, and whether to mirror it.

    Its area is 8 to 100 % of the image's and its sides are 3:4 to 4:3; where ten tries find
    none that fits, it is the largest square in the middle.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(41, generator=generator, dtype=torch.float64).tolist()
    mirrored = draws.pop() < 0.5
    for area, aspect, across, down in zip(*[iter(draws)] * 4, strict=True):
        pixels = width * height * (0.08 + 0.92 * area)
        ratio = math.exp((2 * aspect - 1) * math.log(4 / 3))
        w, h = math.sqrt(pixels * ratio), math.sqrt(pixels / ratio)
        if w <= width and h <= height:
            left, top = across * (width - w), down * (height - h)
            return (left, top, left + w, top + h), mirrored
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return (left, top, left + side, top + side), mirrored


class Images(Dataset[tuple[Tensor, int]]):
    """Images as bytes (3, size, size), red, green and blue, each with its class."""

    def __init__(self, images: ImageList, size: int) -> None:
        self.images = images
        self.size = size

    def __getitem__(self, pick: Pick) -> tuple[Tensor, int]:
        from PIL import Image, UnidentifiedImageError

        number, seed = pick
        path = f"{self.images.root}/{self.images.paths[number]}"
        try:
            with Image.open(path) as file:
                image = file.convert("RGB")
        except (OSError, UnidentifiedImageError, ValueError) as error:
            raise UserError(f"{path} cannot be read as an image: {error}") from error
        box, mirrored = random_piece(image.width, image.height, seed)
        piece = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box)
        if mirrored:
            piece = piece.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.frombuffer(bytearray(piece.tobytes()), dtype=torch.uint8)
        return pixels.view(self.size, self.size, 3).permute(2, 0, 1), self.images.labels[number]


class Batches(Sampler[list[Pick]]):
    """Which images one process takes at each step from `first_step` on, for ever.

    An epoch is an order of all the images, cut into steps and those into shares; what is left
    over at its end waits for another epoch's order. Everything follows from seed and step, so
    a training that was stopped goes on with the images that it would have had.
    """

    def __init__(  # noqa: PLR0913
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
            seeds = torch.randint(MOST_SEEDS - 1, (self.count,), generator=generator)
            for here in range(start, self.steps):
                begin = (here * self.size + self.rank) * self.batch
                mine = slice(begin, begin + self.batch)
                yield list(zip(order[mine].tolist(), seeds[mine].tolist(), strict=True))
            step = (epoch + 1) * self.steps


def load(
    images: ImageList, batches: Batches, image_size: int, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of bytes (n, 3, size, size) and of classes (n), read by so many processes."""
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
            worker_init_fn=_ignore_signal,
            pin_memory=torch.cuda.is_available(),
        )
    )


def _ignore_signal(_worker: int) -> None:
    """Who is to stop is the training; it still needs its images until it has."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
