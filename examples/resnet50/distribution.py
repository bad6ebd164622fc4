"""How the processes of one training work together: torch.distributed, or Horovod.

`start()` looks at the environment: torchrun says RANK, mpirun and horovodrun say a rank of
their own, and a program that nobody launched is a training of one process.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from errors import UserError
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

T = TypeVar("T")


class Distribution(Protocol):
    """This process among the others; all of them must make the same calls in the same order."""

    rank: int
    size: int
    device: torch.device
    backend: str
    memory_format: torch.memory_format
    """How the model's weights must lie in memory."""

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Rank 0's weights everywhere, and gradients that are averaged at each step.

        The optimizer may be a new one: load a checkpoint into what this returns.
        """

    def average(self, values: Tensor) -> Tensor:
        """The mean of all processes' values, on each; a tensor on `device`."""

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on each."""

    def barrier(self) -> None:
        """Waits for all the others."""

    def close(self) -> None:
        """Ends the working together."""


class Torch:
    """torch.distributed: NCCL between GPUs, Gloo between CPUs."""

    memory_format = torch.channels_last

    def __init__(self) -> None:
        self.device = _device(int(os.environ.get("LOCAL_RANK", "0")))
        gpu = self.device.type == "cuda"
        self.backend = "nccl" if gpu else "gloo"
        alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group(
            self.backend,
            device_id=self.device if gpu else None,
            timeout=timedelta(minutes=30),  # the others wait while rank 0 lists a million images
            **alone,
        )
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        # Each process keeps its own running means of the batch normalisation: to send rank 0's
        # at every step would cost time, and it is rank 0's that are saved either way.
        ids = [self.device.index] if self.device.type == "cuda" else None
        wrapped = DistributedDataParallel(
            model, device_ids=ids, broadcast_buffers=False, gradient_as_bucket_view=True
        )
        return wrapped, optimizer

    def average(self, values: Tensor) -> Tensor:
        values = values.clone()
        dist.all_reduce(values)  # Gloo knows sums and no means
        return values / self.size

    def broadcast(self, value: T) -> T:
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def barrier(self) -> None:
        dist.barrier()

    def close(self) -> None:
        dist.destroy_process_group()


class Horovod:
    """Horovod 0.23 or later, by its documented API."""

    backend = "horovod"
    # Horovod sends contiguous tensors alone, and weights in channels_last are none.
    memory_format = torch.contiguous_format

    def __init__(self) -> None:
        try:
            import horovod.torch as hvd
        except ImportError as error:
            raise UserError(f"mpirun started this, and there is no Horovod: {error}") from error
        hvd.init()
        self._hvd = hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        self.device = _device(hvd.local_rank())

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        named = model.named_parameters()
        wrapped = self._hvd.DistributedOptimizer(optimizer, named_parameters=named)
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, wrapped

    def average(self, values: Tensor) -> Tensor:
        mean: Tensor = self._hvd.allreduce(values, name="average", op=self._hvd.Average)
        return mean

    def broadcast(self, value: T) -> T:
        same: T = self._hvd.broadcast_object(value, root_rank=0, name="broadcast")
        return same

    def barrier(self) -> None:
        self._hvd.barrier()

    def close(self) -> None:
        self._hvd.shutdown()


def start() -> Distribution:
    """Meets the other processes."""
    # torchrun's variable first: it may itself run below an mpirun.
    if "RANK" not in os.environ and {"OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"} & os.environ.keys():
        return Horovod()
    return Torch()


def from_rank_0(distribution: Distribution, make: Callable[[], T]) -> T:
    """What `make` returns on rank 0, on each; its UserError ends all, and rank 0 tells it."""
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


def _device(local_rank: int) -> torch.device:
    """This process's own GPU, or the CPU where there are none."""
    count = torch.cuda.device_count()
    if not count:
        return torch.device("cpu")
    if local_rank >= count:
        raise UserError(
            f"process {local_rank} of this node has no GPU: there are {count};"
            " write `processes_per_node: gpus` in the job file"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
