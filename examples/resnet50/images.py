"""A folder of images with one subfolder per class, as ImageNet is unpacked.

Images are read with Pillow and augmented as is usual for ImageNet: a random crop of 8 to 100 % of
the image, mirrored or not, scaled to a square.
"""

import math
import os
from dataclasses import dataclass

import torch
from errors import UserError
from torch import Tensor
from torch.utils.data import Dataset

ENDINGS = (".jpg", ".jpeg", ".png")
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels
Pick = tuple[int, int]  # the number of an image, and the seed of how it is changed


@dataclass(frozen=True)
class ImageList:
    """Images below a root: their relative paths, and the numbers of their classes."""

    root: str
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    labels: tuple[int, ...]


def find_images(root: str) -> ImageList:
    """Returns every image of every class, sorted by class and name."""
    try:
        classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(classes):
            files = (entry.name for entry in os.scandir(f"{root}/{name}"))
            names = sorted(each for each in files if each.lower().endswith(ENDINGS))
            if not names:
                raise UserError(f"{root}/{name} holds no image ({', '.join(ENDINGS)})")
            paths += [f"{name}/{each}" for each in names]
            labels += [label] * len(names)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    if not paths:
        raise UserError(f"{root} holds no folders; each class needs one, with its images in it")
    return ImageList(root, tuple(classes), tuple(paths), tuple(labels))


def random_piece(width: int, height: int, seed: int) -> tuple[Box, bool]:
    """Returns a crop of an image, and True to mirror it.

    Its area is 8 to 100 % of the image's and its sides are 3:4 to 4:3; if ten tries find none that
    fits, it is the largest square in the middle.
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
