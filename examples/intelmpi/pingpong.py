"""Sends a message back and forth between two MPI processes and prints how long it took."""

import argparse

import numpy as np
from mpi4py import MPI


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    message = np.full(arguments.bytes, world.rank, dtype=np.uint8)
    world.Barrier()
    started = MPI.Wtime()
    for _ in range(arguments.rounds):
        if world.rank == 0:
            world.Send(message, 1)
            world.Recv(message, 1)
        elif world.rank == 1:
            world.Recv(message, 0)
            message += 1
            world.Send(message, 0)
    seconds = (MPI.Wtime() - started) / arguments.rounds / 2
    if world.rank == 0:
        # Rank 1 has counted the rounds in every byte.
        assert (message == arguments.rounds % 256).all()
        library = " ".join(MPI.Get_library_version().split()[:2])
        rate = arguments.bytes / seconds / 1e9
        print(f"done: {seconds * 1e6:.1f} us {rate:.2f} GB/s ranks={world.size} mpi={library}")


if __name__ == "__main__":
    main()
