"""Data-parallel training with MPI: handwritten digits, a small network, averaged gradients.

    mpirun -np 4 python train.py --epochs 30

Every rank holds the entire network and works on its share of each batch; one all-reduce per step
adds up the gradients. A batch has the same images however many ranks share it, so the result is the
same too, apart from rounding.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

# Before numpy is loaded: the ranks of a node already share its cores. A numpy that started
# a thread a core in every one of them would only make them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from checkpoint import CheckpointError, Progress, load, save, write_arrays
from mlp import Examples, Network, initial_weights, load_digits
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.Get_rank(), COMM.Get_size()


class Trainer:
    """One rank's part of the training; `progress` is the same on every rank."""

    def __init__(self, options: argparse.Namespace, progress: Progress) -> None:
        self.options = options
        self.progress = progress
        self.network = Network(options.hidden, progress.weights)
        self.images_seen, self.seconds = 0, 0.0  # by all ranks together, since this start
        self.stop_requested = False
        signal.signal(signal.SIGTERM, self._request_stop)

    def _request_stop(self, *_: object) -> None:
        self.stop_requested = True

    @property
    def speed(self) -> float:
        """Images per second, over all ranks and since this start."""
        return self.images_seen / self.seconds if self.seconds else 0.0

    def epoch(self, learn: Examples) -> bool:
        """Train for the rest of the epoch. Return False if some rank was asked to stop, and so all
        do."""
        began = time.perf_counter()
        at, size = self.progress, self.options.batch_size
        order = np.random.default_rng((self.options.seed, at.epoch)).permutation(len(learn[1]))
        stop = False
        while not stop and at.step * size < len(order):
            batch = order[at.step * size : (at.step + 1) * size]
            stop = self.step(learn, batch)
        self.seconds += time.perf_counter() - began
        return not stop

    def step(self, learn: Examples, batch: np.ndarray) -> bool:
        """Take one step down the gradient of this batch, of which each rank computes its share."""
        mine = batch[RANK::RANKS]
        loss, gradient = self.network.loss_and_gradient((learn[0][mine], learn[1][mine]))
        # One message carries all that the ranks must agree on, stopping included.
        total = np.append(gradient, (loss, self.stop_requested))
        COMM.Allreduce(MPI.IN_PLACE, total, MPI.SUM)
        at = self.progress
        at.velocity *= self.options.momentum
        at.velocity -= self.options.lr / len(batch) * total[:-2]
        at.weights += at.velocity
        at.loss += float(total[-2])
        at.step += 1
        self.images_seen += len(batch)
        return bool(total[-1])

    def accuracy(self, test: Examples) -> float:
        """Return the fraction of correctly classified images; each rank tests its share."""
        correct = self.network.count_correct((test[0][RANK::RANKS], test[1][RANK::RANKS]))
        return float(COMM.allreduce(correct)) / len(test[1])


def train(options: argparse.Namespace) -> int:
    """Train as the options and Fairway's environment say; return the exit code."""
    folder = os.environ.get("FAIRWAY_CHECKPOINT_DIR")
    checkpoint = Path(folder, "checkpoint.npz") if folder else None
    settings = json.dumps({name: v for name, v in vars(options).items() if name != "epochs"})
    trainer = Trainer(options, start(options, checkpoint, settings))
    at = trainer.progress
    # One rank reads and the others receive: kind to a file server when there are hundreds.
    learn, test = COMM.bcast(load_digits(options.seed) if RANK == 0 else None)
    while at.epoch < options.epochs:
        finished = trainer.epoch(learn)
        if finished:
            loss = at.loss / len(learn[1])
            at.epoch, at.step, at.loss = at.epoch + 1, 0, 0.0
            accuracy = trainer.accuracy(test)
            say(f"epoch={at.epoch} {loss=:.4f} {accuracy=:.3f} images/s={trainer.speed:.0f}")
        if checkpoint and RANK == 0:
            save(checkpoint, at, settings)
        if not finished:
            say(f"stopped after epoch {at.epoch}, step {at.step}; saved: {checkpoint or 'nothing'}")
            return 128 + signal.SIGTERM
    accuracy = trainer.accuracy(test)
    nodes = len(set(COMM.allgather(MPI.Get_processor_name())))
    keep_model(trainer.network)
    say(f"done: {accuracy=:.3f} images/s={trainer.speed:.0f} ranks={RANKS} {nodes=}")
    return 0


def start(options: argparse.Namespace, checkpoint: Path | None, settings: str) -> Progress:
    """Return a new training, or the one of the checkpoint, which rank 0 reads for all."""
    if attempt := int(os.environ.get("FAIRWAY_ATTEMPT") or 0):
        say(f"{attempt=}")
    weights = initial_weights(options.hidden, options.seed)
    found: Progress | CheckpointError = Progress(weights, np.zeros_like(weights))
    if RANK == 0 and checkpoint and checkpoint.exists():
        try:
            found = load(checkpoint, settings, weights.size)
        except CheckpointError as error:
            found = error
    found = COMM.bcast(found)
    if isinstance(found, CheckpointError):
        raise found
    if found.epoch or found.step:
        say(f"resumed from epoch {found.epoch}" + (f", step {found.step}" if found.step else ""))
    return found


def keep_model(network: Network) -> None:
    """Write the layers where Fairway collects the output `model`."""
    if not (folder := os.environ.get("FAIRWAY_OUTPUT_MODEL")):
        say("FAIRWAY_OUTPUT_MODEL is not set: no model is kept")
    elif RANK == 0:
        write_arrays(Path(folder, "model.npz"), **network.layers)
        say("model: model.npz, in the run's output `model`")


def say(line: str, file: TextIO = sys.stdout) -> None:
    """Print a line once rather than on every rank."""
    if RANK == 0:
        print(line, file=file, flush=True)


def read_options() -> argparse.Namespace:
    """Parse the command line on every rank; only rank 0 prints an error."""

    def number(kind: type[int | float], low: float, high: float) -> Callable[[str], int | float]:
        def number(text: str) -> int | float:
            if not low <= (value := kind(text)) <= high:
                raise argparse.ArgumentTypeError(f"{text} is not between {low} and {high}")
            return value

        return number

    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--epochs", type=number(int, 1, 10_000), default=30, help="passes over the images")
    add("--lr", type=number(float, 1e-6, 10), default=0.1, help="learning rate")
    add("--momentum", type=number(float, 0, 0.999), default=0.9, help="kept of the last step")
    add("--batch-size", type=number(int, 1, 10_000), default=64, help="of all ranks together")
    add("--hidden", type=number(int, 1, 10_000), default=64, help="units of the hidden layer")
    add("--seed", type=number(int, 0, 2**31), default=0, help="of split, weights and order")
    with contextlib.redirect_stderr(sys.stderr if RANK == 0 else io.StringIO()):
        return parser.parse_args()


def abort(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """End every rank when this one fails: the others would wait for it in the all-reduce."""
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    COMM.Abort(1)


if __name__ == "__main__":
    sys.excepthook = abort
    try:
        sys.exit(train(read_options()))
    except CheckpointError as error:
        say(f"error: {error}", sys.stderr)
        sys.exit(2)
