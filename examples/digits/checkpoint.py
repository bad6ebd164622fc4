"""Checkpoints: everything that a stopped training needs to end with exactly the same numbers."""

import os
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mlp import Floats


@dataclass
class Progress:
    """State of the training: `step` of `epoch` is the next one, both from 0.

    The order of the images is not stored: it follows from the seed and the epoch.
    """

    weights: Floats
    velocity: Floats
    epoch: int = 0
    step: int = 0
    loss: float = 0.0  # summed over the images of this epoch so far


class CheckpointError(Exception):
    """A checkpoint from which this run cannot continue."""


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write an .npz file atomically: readers of `path` never see a part of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)  # this is os.replace: atomic


def save(path: Path, progress: Progress, settings: str) -> None:
    """Write a checkpoint; `settings` describes the training that it belongs to."""
    write_arrays(path, settings=settings, **asdict(progress))


def load(path: Path, settings: str, size: int) -> Progress:
    """Read a checkpoint of `size` weights, or raise a `CheckpointError` that says what to do."""
    try:
        with np.load(path) as file:
            found = str(file["settings"])
            progress = Progress(
                weights=file["weights"],
                velocity=file["velocity"],
                epoch=int(file["epoch"]),
                step=int(file["step"]),
                loss=float(file["loss"]),
            )
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({error}); remove it to start afresh"
        ) from error
    if found != settings or not progress.weights.shape == progress.velocity.shape == (size,):
        raise CheckpointError(
            f"{path} is of another training ({found}; this one: {settings});"
            " use the same settings, or another FAIRWAY_CHECKPOINT_DIR"
        )
    return progress
