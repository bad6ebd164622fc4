"""Precision of the computation: 16 bits if the GPU multiplies those faster than 32."""

import torch
from torch.amp import GradScaler

CHOICES = ("auto", "bf16", "fp16", "fp32")


class Precision:
    """Type of the forward pass; weights and their sums stay in 32 bits.

    `auto` is bf16 on GPUs that have it (A100 and later), fp16 on older ones (V100), and fp32 on
    CPUs. In fp16 small gradients would vanish, so the loss is scaled for the backward pass.
    """

    def __init__(self, choice: str, device: torch.device) -> None:
        if choice == "auto" and device.type == "cuda":
            native = torch.cuda.is_bf16_supported(including_emulation=False)
            choice = "bf16" if native else "fp16"
        self.name = "fp32" if choice == "auto" else choice
        types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        self.type = types[self.name]
        self.scaler = GradScaler(device.type, enabled=self.name == "fp16")
