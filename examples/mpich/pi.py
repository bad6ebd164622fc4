"""Computes π by the midpoint rule; each MPI process takes a share of the steps."""

import argparse
import math

import numpy as np
from mpi4py import MPI


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    world = MPI.COMM_WORLD
    x = (np.arange(world.rank, steps, world.size) + 0.5) / steps
    share = float(np.sum(4 / (1 + x * x))) / steps
    pi = world.allreduce(share)
    if world.rank == 0:
        library = MPI.Get_library_version().split()[0].rstrip(":")
        print(f"done: pi={pi:.10f} error={abs(pi - math.pi):.1e} ranks={world.size} mpi={library}")


if __name__ == "__main__":
    main()
