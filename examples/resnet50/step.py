"""One step down the gradient."""

import torch
from data import Batch
from options import Options
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer


def new_optimizer(model: nn.Module, options: Options) -> Optimizer:
    """Stochastic gradient descent; its rate is set anew at each step."""
    weights, decay = model.parameters(), options.weight_decay
    return SGD(weights, lr=options.lr, momentum=options.momentum, weight_decay=decay)


def one_step(model: nn.Module, optimizer: Optimizer, batch: Batch, *, bf16: bool) -> Tensor:
    """Trains on a batch; its loss, which a GPU may not have computed yet."""
    images, labels = batch
    optimizer.zero_grad()
    with torch.autocast(images.device.type, torch.bfloat16, enabled=bf16):
        loss = cross_entropy(model(images), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()
