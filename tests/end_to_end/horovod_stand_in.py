"""A stand-in for `horovod.torch`: its documented calls over torch.distributed.

Like Horovod it refuses a tensor that is not contiguous, and its wrapped optimizer is a new one
without the state of the original.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

Average = "average"
rank, size, shutdown, barrier = (
    dist.get_rank,
    dist.get_world_size,
    dist.destroy_process_group,
    dist.barrier,
)


def init() -> None:
    dist.init_process_group(
        "gloo",
        init_method="file://" + os.environ["FAIRWAY_SCRATCH_DIR"] + "/meeting",
        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )


def local_rank() -> int:
    return int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])


def _sendable(tensor: Tensor) -> Tensor:
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")
    return tensor


def allreduce(tensor: Tensor, name: str | None = None, op: str | None = None) -> Tensor:
    assert op == Average
    result = _sendable(tensor).clone()
    dist.all_reduce(result)
    return result / size()


def broadcast_parameters(params: dict[str, Tensor], root_rank: int) -> None:
    for _, tensor in sorted(params.items()):
        dist.broadcast(_sendable(tensor), root_rank)


def broadcast_object(obj: object, root_rank: int = 0, name: str | None = None) -> object:
    objects = [obj]
    dist.broadcast_object_list(objects, src=root_rank)
    return objects[0]


def DistributedOptimizer(  # noqa: N802
    optimizer: Optimizer, named_parameters: Iterable[tuple[str, Tensor]]
) -> Optimizer:
    named = [parameter for _, parameter in named_parameters]

    class Distributed(type(optimizer)):  # type: ignore[misc]
        waits = True

        def synchronize(self) -> None:
            for parameter in named:
                assert parameter.grad is not None
                dist.all_reduce(_sendable(parameter.grad))
                parameter.grad /= size()

        @contextlib.contextmanager
        def skip_synchronize(self) -> Iterator[None]:
            self.waits = False
            yield
            self.waits = True

        def step(self, closure: Any = None) -> Any:
            if self.waits:
                self.synchronize()
            return super().step(closure)

    return Distributed(optimizer.param_groups)
