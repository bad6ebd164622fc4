"""The processes of mpirun or horovodrun: Horovod."""

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from device import choose_device
from errors import UserError
from torch import Tensor, nn
from torch.optim import Optimizer

T = TypeVar("T")


class Horovod:
    """Horovod 0.23 or later, which has `barrier`."""

    backend = "horovod"
    # Horovod sends contiguous tensors alone, and weights in channels_last are none.
    memory_format = torch.contiguous_format

    def __init__(self) -> None:
        try:
            import horovod.torch as hvd  # type: ignore[import-not-found]
        except ImportError as error:
            raise UserError(f"mpirun started this, and there is no Horovod: {error}") from error
        hvd.init()
        self._hvd = hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        self.device = choose_device(hvd.local_rank())

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        named = model.named_parameters()
        wrapped = self._hvd.DistributedOptimizer(optimizer, named_parameters=named)
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, wrapped

    def averaged(self, optimizer: Any, /) -> AbstractContextManager[None]:
        optimizer.synchronize()
        once: AbstractContextManager[None] = optimizer.skip_synchronize()
        return once

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
