"""Cooperation of the processes of one training, whatever launched them.

`start()` inspects the environment: torchrun sets RANK, mpirun and horovodrun set ranks of their
own, and a program without a launcher is a training of one process.
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
        """Broadcasts rank 0's weights, and returns an optimizer that averages gradients at each
        step.

        The optimizer may be a new one: load a checkpoint into the returned one.
        """

    def averaged(self, optimizer: Optimizer, /) -> AbstractContextManager[None]:
        """Averages gradients that `backward` has not; enter it between `backward` and the step."""

    def average(self, values: Tensor) -> Tensor:
        """Returns the mean of all processes' values, a tensor on `device`, on each process."""

    def broadcast(self, value: T) -> T:
        """Returns rank 0's value on each process."""

    def barrier(self) -> None:
        """Waits for all the others."""

    def close(self) -> None:
        """Leaves the group of processes."""


def start() -> Distribution:
    """Joins the other processes."""
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
