"""Trains ResNet-50 on as many processes as there are, and says how fast it went.

    torchrun --nproc_per_node 8 train.py --batch-size 256 --steps 500 --measure-single 50
"""

import contextlib
import copy
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import checkpoint
import torch
from data import Batch, batches
from distribution import Distribution, from_rank_0, start
from errors import UserError
from images import ImageList, find_images
from model import ResNet
from options import Options, read_options
from speed import Speed, summary
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer

STOPPED = 128 + signal.SIGTERM


class Trainer:
    """One process's part of the training."""

    def __init__(self, options: Options, distribution: Distribution) -> None:
        self.options = options
        self.all = distribution
        self.stop_requested = False
        signal.signal(signal.SIGTERM, self._request_stop)
        data = options.data
        self.images = from_rank_0(distribution, lambda: find_images(data)) if data else None
        classes = len(self.images.classes) if self.images else options.classes
        self.settings = {"depth": options.depth, "width": options.width, "classes": classes}
        torch.manual_seed(options.seed)
        torch.backends.cudnn.benchmark = True
        model = ResNet(**self.settings)
        self.model = model.to(distribution.device, memory_format=distribution.memory_format)
        self.bf16 = use_bf16(options.precision, distribution.device)
        self.step = 0

    def _request_stop(self, *_: object) -> None:
        self.stop_requested = True

    def say(self, line: str) -> None:
        """Prints it once, and not once a process."""
        if self.all.rank == 0:
            print(line, flush=True)

    def describe(self) -> None:
        """What is trained, and on what."""
        device = self.all.device
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        self.say(
            f"ResNet-{self.options.depth} of {self.model.parameter_count:,} parameters on"
            f" {self.all.size} × {kind}; backend={self.all.backend}"
            f" precision={'bf16' if self.bf16 else 'fp32'} data={self.options.data or 'synthetic'}"
        )

    def one_step(self, model: nn.Module, optimizer: Optimizer, batch: Batch) -> Tensor:
        """Goes one step down the gradient of a batch; its loss, still on the device."""
        images, labels = batch
        optimizer.zero_grad()
        with torch.autocast(self.all.device.type, torch.bfloat16, enabled=self.bf16):
            loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()
