"""The command line of `train.py`."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model import STAGES
from precision import CHOICES


@dataclass(frozen=True)
class Options:
    """Model, data and measurements of a training; `read_options` explains each field."""

    depth: int
    width: int
    classes: int
    data: str | None
    workers: int
    image_size: int
    batch_size: int
    steps: int
    warmup_steps: int
    report_every: int
    checkpoint_every: int
    lr: float
    lr_warmup_steps: int
    lr_drops: tuple[int, ...]
    momentum: float
    weight_decay: float
    precision: str
    single: float | None
    measure_single: int
    seed: int

    def learning_rate(self, step: int, processes: int) -> float:
        """Returns the rate of one step: proportional to its images, with a warm-up and later
        drops."""
        rate = self.lr * self.batch_size * processes / 256
        rise = min(1.0, (step + 1) / (self.lr_warmup_steps + 1))
        return rate * rise * math.prod(0.1 for drop in self.lr_drops if step >= drop)


def _number(kind: type[int] | type[float], low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        if not low <= (value := kind(text)) <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low} and {high}")
        return value

    return number


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Parses the options; a mistake in them prints their usage and exits with 2."""
    parser = argparse.ArgumentParser(
        description="Trains ResNet-50 on many processes, and says how fast it went.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    count, many = _number(int, 1, 1e9), _number(int, 0, 1e9)
    add("--depth", type=int, choices=sorted(STAGES), default=50, help="layers")
    add("--width", type=_number(int, 1, 1024), default=64, help="channels of the first stage")
    add("--classes", type=_number(int, 2, 1e6), default=1000, help="of the synthetic images")
    add("--data", metavar="FOLDER", help="train on its images, a folder a class; or synthetic")
    add("--workers", type=many, default=4, help="processes that read images, for each process")
    add("--image-size", type=_number(int, 32, 4096), default=224, help="pixels of each side")
    add("--batch-size", type=_number(int, 2, 65536), default=64, help="images a process and step")
    add("--steps", type=count, default=100, help="in all, those before a checkpoint included")
    add("--warmup-steps", type=many, default=10, help="at the start, which do not count for speed")
    add("--report-every", type=count, default=20, metavar="STEPS", help="print, look for SIGTERM")
    add("--checkpoint-every", type=count, default=500, metavar="STEPS", help="save at the report")
    add(
        "--lr", type=_number(float, 0, 100), default=0.1, help="learning rate for 256 images a step"
    )
    add("--lr-warmup-steps", type=many, default=0, metavar="STEPS", help="in which the rate rises")
    add("--lr-drops", type=count, nargs="*", default=[], metavar="STEP", help="rate to a tenth")
    add("--momentum", type=_number(float, 0, 0.9999), default=0.9, help="kept of the last step")
    add("--weight-decay", type=_number(float, 0, 1), default=5e-5, help="pull of weights to zero")
    add("--precision", choices=CHOICES, default="auto", help="auto: half of it on GPUs")
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--single", type=_number(float, 1e-6, 1e12), help="images a second of one process alone"
    )
    one.add_argument(
        "--measure-single", type=many, default=0, metavar="STEPS", help="rank 0 alone, at the start"
    )
    add("--seed", type=_number(int, 0, 2**31), default=0, help="of weights, images and their order")
    found = vars(parser.parse_args(arguments))
    if found["warmup_steps"] >= found["steps"]:
        parser.error("--warmup-steps leaves no step to measure; it must be less than --steps")
    return Options(**{**found, "lr_drops": tuple(found["lr_drops"])})
