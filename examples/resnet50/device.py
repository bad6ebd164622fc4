"""The device that a process computes on."""

import torch
from errors import UserError


def choose_device(local_rank: int) -> torch.device:
    """Returns this process's own GPU, or the CPU if there is none."""
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
