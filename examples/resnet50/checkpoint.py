"""Checkpoints: everything that a stopped training needs to continue as if it had not stopped."""

import os
import pickle
from pathlib import Path
from typing import Any

import torch
from errors import UserError

# What torch.load raises for a file that it did not write, or not to its end.
UNREADABLE = (
    *(OSError, EOFError, RuntimeError, pickle.UnpicklingError),
    *(KeyError, TypeError, ValueError),
)
PARTS = ("step", "model", "optimizer", "scaler")
State = dict[str, Any]
"""settings (of the model), step (how many are done); model, optimizer, scaler (their states)."""


def write(path: Path, state: State) -> None:
    """Writes a file atomically: readers of `path` never see a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)  # atomic


def read(path: Path, settings: dict[str, int]) -> State:
    """Reads a checkpoint of a model with these settings. Raises UserError, which says how it
    differs."""
    try:
        state: State = torch.load(path, map_location="cpu", weights_only=True)
        found, _ = state["settings"], [state[part] for part in PARTS]
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if found != settings:
        raise UserError(
            f"{path} is of another model ({found}; this one: {settings});"
            " use the same settings, or another FAIRWAY_CHECKPOINT_DIR"
        )
    return state


def _unreadable(path: Path, error: Exception) -> UserError:
    lines = str(error).splitlines() or [type(error).__name__]
    return UserError(f"{path} is no checkpoint ({lines[0]}); remove it to start afresh")
