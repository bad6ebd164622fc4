"""Fits y = 3x - 1 with DistributedDataParallel, on GPUs if there are any."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    local = int(os.environ["LOCAL_RANK"])
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    torch.manual_seed(dist.get_rank())  # each process has its own data
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(steps):
        x = torch.rand(64, 1, device=device) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1)
        optimizer.zero_grad()
        loss.backward()  # the gradients are averaged over all processes here
        optimizer.step()
    slope, offset = (parameter.item() for parameter in model.parameters())
    if dist.get_rank() == 0:
        nodes = os.environ["GROUP_WORLD_SIZE"]
        ranks = dist.get_world_size()
        print(f"done: slope={slope:.3f} offset={offset:.3f} ranks={ranks} nodes={nodes}")
    dist.barrier()  # a rank that leaves early can crash one that still speaks to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
