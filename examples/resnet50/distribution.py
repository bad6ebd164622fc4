"""Cooperation of the processes of one training, whatever launched them.

`start()` looks at the environment: torchrun says RANK, mpirun and horovodrun say a rank of
their own, and a program that nobody launched is a training of one process.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import torch
from errors import UserError
from torch import Tensor, nn
from torch.optim import Optimizer

T = TypeVar("T")


class Distribution(Protocol):
    """This process among the others; all of them must make the same calls in the same order."""

    rank: int
    size: int
    device: torch.device
    backend: str
    memory_format: torch.memory_format
    """Layout in memory that the model's weights must have."""

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Rank 0's weights everywhere, and gradients that are averaged at each step.

        The optimizer may be a new one: load a checkpoint into what this returns.
        """

    def averaged(self, optimizer: Optimizer, /) -> AbstractContextManager[None]:
        """Between the gradients and the step: they are averaged where it is entered."""

    def average(self, values: Tensor) -> Tensor:
        """The mean of all processes' values, on each; a tensor on `device`."""

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on each."""

    def barrier(self) -> None:
        """Waits for all the others."""

    def close(self) -> None:
        """Ends the working together."""


def start() -> Distribution:
    """Meets the other processes."""
    # torchrun's variable first: it may itself run below an mpirun.
    if "RANK" not in os.environ and {"OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"} & os.environ.keys():
        from with_horovod import Horovod

        return Horovod()
    from with_torch import Torch

    return Torch()


def from_rank_0(distribution: Distribution, make: Callable[[], T]) -> T:
    """Calls `make` on rank 0 and returns its result on every rank; its UserError ends them all, and
    rank 0 prints it."""
    made: T | UserError | None = None
    if distribution.rank == 0:
        try:
            made = make()
        except UserError as error:
            made = error
    made = distribution.broadcast(made)
    if isinstance(made, UserError):
        raise made if distribution.rank == 0 else SystemExit(2)
    assert made is not None
    return made
