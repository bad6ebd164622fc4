"""The processes of torchrun, or one alone: torch.distributed."""

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from device import choose_device
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

T = TypeVar("T")


class Torch:
    """torch.distributed: NCCL between GPUs, Gloo between CPUs."""

    memory_format = torch.channels_last

    def __init__(self) -> None:
        self.device = choose_device(int(os.environ.get("LOCAL_RANK", "0")))
        gpu = self.device.type == "cuda"
        self.backend = "nccl" if gpu else "gloo"
        # Nobody launched it: it meets nobody, and needs no address to do so.
        store = dist.HashStore()  # type: ignore[attr-defined]
        alone: dict[str, Any] = {"store": store, "rank": 0, "world_size": 1}
        dist.init_process_group(
            self.backend,
            device_id=self.device if gpu else None,
            timeout=timedelta(minutes=30),  # the others wait while rank 0 lists a million images
            **({} if "RANK" in os.environ else alone),
        )
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        # Each process keeps its own running means of the batch normalisation: to send rank 0's
        # at every step would cost time, and it is rank 0's that are saved either way.
        ids = [self.device.index] if self.device.type == "cuda" else None
        with warnings.catch_warnings():
            # Older releases do not know the new name of `broadcast_buffers`.
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                model, device_ids=ids, broadcast_buffers=False, gradient_as_bucket_view=True
            )
        return wrapped, optimizer

    def averaged(self, _optimizer: Optimizer, /) -> AbstractContextManager[None]:
        return nullcontext()  # they already are, since `backward`

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
        dist.barrier()  # a rank that leaves early can crash one that still speaks to it
        dist.destroy_process_group()
