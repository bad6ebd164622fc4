"""Speed of one process without the others, the reference for scaling."""

import copy

import torch
from data import batches
from precision import Precision
from speed import Speed
from step import new_optimizer, one_step
from trainer import Trainer


def measure_alone(trainer: Trainer) -> float | None:
    """Returns images per second of rank 0 alone; None on the other processes, which wait meanwhile.

    It trains a copy of the model, on the same kind of data and after as many warm-up steps.
    """
    speed = _measure(trainer) if trainer.processes.rank == 0 else None
    trainer.processes.barrier()
    return speed


def _measure(trainer: Trainer) -> float:
    options, device = trainer.options, trainer.device
    model = copy.deepcopy(trainer.model)
    optimizer = new_optimizer(model, options)
    source = batches(options, trainer.images, device, rank=0, size=1)
    precision = Precision(options.precision, device)
    clock, speed = Speed(), 0.0
    for steps in (options.warmup_steps, options.measure_single):
        clock.start()
        for _ in range(steps):
            one_step(model, optimizer, next(source), precision)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        speed = clock.stop(steps * options.batch_size, counts=True)
    return speed
