"""Trains ResNet-50 on as many processes as there are, and says how fast it went.

torchrun --nproc_per_node 8 train.py --batch-size 256 --steps 500 --measure-single 50
"""

import os
import signal
import sys
from pathlib import Path

import checkpoint
import torch
from alone import measure_alone
from distribution import Distribution, from_rank_0, start
from errors import UserError
from images import find_images
from options import Options, read_options
from speed import summary
from trainer import Trainer


def train(options: Options, processes: Distribution) -> int:
    """Trains as the options and Fairway's environment say; returns the exit code."""
    data = options.data
    images = from_rank_0(processes, lambda: find_images(data)) if data else None
    trainer = Trainer(options, processes, images)
    describe(trainer)
    single = options.single
    if options.measure_single and processes.size > 1:
        single = measure_alone(trainer)
    folder = os.environ.get("FAIRWAY_CHECKPOINT_DIR")
    path = Path(folder, "checkpoint.pt") if folder else None
    if not trainer.train(path):
        trainer.say(f"stopped after step {trainer.step}; saved: {path or 'nothing'}")
        return 128 + signal.SIGTERM
    keep_model(trainer)
    total = trainer.speed.images_per_second
    trainer.say(summary(total, processes.size, single) if total else "no step was left to measure")
    return 0


def describe(trainer: Trainer) -> None:
    """Prints the model, the data and the processes."""
    processes, options = trainer.processes, trainer.options
    gpu = processes.device.type == "cuda"
    kind = torch.cuda.get_device_name(processes.device) if gpu else "CPU"
    trainer.say(
        f"ResNet-{options.depth} of {trainer.model.parameter_count:,} parameters,"
        f" processes={processes.size} device={kind} backend={processes.backend}"
        f" precision={trainer.precision.name} data={options.data or 'synthetic'}"
    )


def keep_model(trainer: Trainer) -> None:
    """Writes the weights where Fairway collects the output `model`."""
    folder = os.environ.get("FAIRWAY_OUTPUT_MODEL")
    if folder and trainer.processes.rank == 0:
        path = Path(folder, "model.pt")
        checkpoint.write(path, {"settings": trainer.settings, "model": trainer.model.state_dict()})
        trainer.say(f"model: {path}")


def main() -> int:
    """Joins the other processes, trains with them and exits; with 2 for a user's mistake."""
    options = read_options()
    try:
        processes = start()
        code = train(options, processes)
        processes.close()
        # Not by way of the interpreter's own end: it can abort the process where threads of the
        # network libraries have not ended yet. Everything is written by now.
        os._exit(code)
    except UserError as error:
        # A process that reads images for this one puts its own traceback before the text.
        text = str(error).strip().rpartition("errors.UserError: ")[2]
        print(f"error: {text}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())
