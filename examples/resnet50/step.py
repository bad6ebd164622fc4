"""One step down the gradient."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from data import Batch
from options import Options
from precision import Precision
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer


def new_optimizer(model: nn.Module, options: Options) -> Optimizer:
    """Returns stochastic gradient descent, whose rate is set at each step."""
    weights, decay = model.parameters(), options.weight_decay
    return SGD(weights, lr=options.lr, momentum=options.momentum, weight_decay=decay)


def one_step(
    model: nn.Module,
    optimizer: Optimizer,
    batch: Batch,
    precision: Precision,
    averaged: Callable[[Any], AbstractContextManager[None]] = nullcontext,
) -> Tensor:
    """Trains on a batch; returns its loss, which a GPU may not have computed yet.

    `averaged` is that of the cooperating processes.
    """
    images, labels = batch
    optimizer.zero_grad()
    half = precision.type != torch.float32
    with torch.autocast(images.device.type, precision.type, enabled=half):
        loss = cross_entropy(model(images), labels)
    precision.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    with averaged(optimizer):
        precision.scaler.step(optimizer)
    precision.scaler.update()
    return loss.detach()
