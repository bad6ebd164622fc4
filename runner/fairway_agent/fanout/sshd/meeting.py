"""What the nodes of one task have in common, by which they find each other. Standard library
only."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Below what Linux takes for outgoing connections, and without Batch's own port.
_FIRST_PORT, _PORTS, _STEP, _CANDIDATES = 20_000, 10_000, 97, 16


@dataclass(frozen=True)
class Meeting:
    """One task's servers: its `name`, which no other task on the same nodes has; the `folder` on
    each node where keys and configurations lie; the file of the run's private `key` as it came;
    and the command that answers for a node, to which a file is added that says what it is."""

    name: str
    folder: Path
    key: Path
    serve: str

    @property
    def ports(self) -> list[int]:
        """Where the task's servers listen: each on the first of these that is free."""
        start = zlib.crc32(self.name.encode())
        return [_FIRST_PORT + (start + i * _STEP) % _PORTS for i in range(_CANDIDATES)]
