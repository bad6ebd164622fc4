"""What a node must still have to be well, and where it says so; `health.sh` looks."""

from __future__ import annotations

from dataclasses import dataclass

# Of the loopback address, and below the ports that Linux hands out.
HEALTH_PORT = 18642


@dataclass(frozen=True, kw_only=True)
class NodeHealth:
    """What a sound node has: NVIDIA GPUs, and InfiniBand adapters that are up."""

    gpus: int
    adapters: int
