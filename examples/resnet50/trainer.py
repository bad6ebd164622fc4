"""One process's part of the training: steps, reports, and resuming after a stop."""

import signal
from collections.abc import Iterator
from pathlib import Path

import checkpoint
import torch
from data import Batch, batches
from distribution import Distribution, from_rank_0
from images import ImageList
from model import ResNet
from options import Options
from precision import Precision
from speed import Speed
from step import new_optimizer, one_step
from torch import nn
from torch.optim import Optimizer


class Trainer:
    """The model and the progress of its training; `step` counts the completed steps."""

    def __init__(
        self, options: Options, distribution: Distribution, images: ImageList | None
    ) -> None:
        self.options, self.processes, self.images = options, distribution, images
        self.device = distribution.device
        classes = len(images.classes) if images else options.classes
        self.settings = {"depth": options.depth, "width": options.width, "classes": classes}
        torch.manual_seed(options.seed)
        torch.backends.cudnn.benchmark = True  # the images are all of one size
        model = ResNet(**self.settings)
        self.model = model.to(self.device)
        # The types of torch do not know this form of `to`.
        self.model.to(memory_format=distribution.memory_format)  # type: ignore[call-overload]
        self.precision = Precision(options.precision, self.device)
        self.step = 0
        self.speed = Speed()
        self._stop_requested = False
        signal.signal(signal.SIGTERM, self._request_stop)

    def train(self, path: Path | None) -> bool:
        """Trains to the last step, saving to and resuming from `path`; returns False if told to
        stop."""
        model, optimizer = self.processes.wrap(self.model, new_optimizer(self.model, self.options))
        self._resume(path, optimizer)
        options, begun, saved = self.options, self.step, self.step
        source = batches(
            options,
            self.images,
            self.device,
            rank=self.processes.rank,
            size=self.processes.size,
            first_step=begun,
        )
        warm = min(begun + options.warmup_steps, options.steps)
        stop = False
        while self.step < options.steps and not stop:
            counts = self.step >= warm
            # Up to the next report, the end of the warm-up or the last step.
            every = options.report_every
            until = min((self.step // every + 1) * every, options.steps if counts else warm)
            stop = self._interval(model, optimizer, source, until, counts=counts)
            due = self.step // options.checkpoint_every > saved // options.checkpoint_every
            if due or stop or self.step == options.steps:
                saved = self.step
                self._save(path, optimizer)
        return not stop

    def _interval(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        source: Iterator[Batch],
        until: int,
        *,
        counts: bool,
    ) -> bool:
        """Trains for the steps up to `until`, and prints a line; returns True if a process was told
        to stop."""
        size, steps = self.processes.size, until - self.step
        # The loss, and whether to stop; a GPU that is asked for either at each step would wait.
        totals = torch.zeros(2, device=self.device)
        self.speed.start()
        for step in range(self.step, until):
            for group in optimizer.param_groups:
                group["lr"] = self.options.learning_rate(step, size)
            loss = one_step(model, optimizer, next(source), self.precision, self.processes.averaged)
            totals[0] += loss / steps
        self.step = until
        totals[1] = self._stop_requested
        mean_loss, stop = self.processes.average(totals).tolist()
        images = steps * size * self.options.batch_size
        speed = self.speed.stop(images, counts=counts)
        line = f"step={self.step} loss={mean_loss:.4f}"
        unit = "gpu" if self.device.type == "cuda" else "process"
        pace = f"images/s={speed:.1f} images/s/{unit}={speed / size:.1f}"
        self.say(f"{line} {pace}" if counts else f"{line} warm-up")
        return bool(stop > 0)

    def _resume(self, path: Path | None, optimizer: Optimizer) -> None:
        """Resumes all processes from the checkpoint, which rank 0 reads."""
        state = from_rank_0(
            self.processes,
            lambda: checkpoint.read(path, self.settings) if path and path.exists() else {},
        )
        if state:
            self.model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            if state["scaler"]:  # of fp16; another precision has none
                self.precision.scaler.load_state_dict(state["scaler"])
            self.step = state["step"]
            self.say(f"resumed after step {self.step}")

    def _save(self, path: Path | None, optimizer: Optimizer) -> None:
        if path and self.processes.rank == 0:
            state = {
                "settings": self.settings,
                "step": self.step,
                "model": self.model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scaler": self.precision.scaler.state_dict(),
            }
            checkpoint.write(path, state)

    def _request_stop(self, *_: object) -> None:
        self._stop_requested = True

    def say(self, line: str) -> None:
        """Prints a line once rather than in every process."""
        if self.processes.rank == 0:
            print(line, flush=True)
