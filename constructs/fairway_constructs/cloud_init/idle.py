"""Programs by which a machine monitors itself: its use, and its devices."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from functools import cached_property

from fairway_agent.quick import dataclass


@dataclass(frozen=True, kw_only=True)
class IdleSettings:
    """The settings of the idle stop: the seconds until it, the folder in which a cluster's runs
    queue, its mount, "" for the machine's own disk, and whether the cluster may have `others`."""

    after: float
    cluster: str
    folder: str
    mount: str = ""
    others: bool = False

    @property
    def text(self) -> str:
        """The settings file that `fairway_boot.idle_stop` reads."""
        return json.dumps(asdict(self))

    @property
    def library(self) -> str:
        """The folder of the program's package."""
        from fairway_core.slurm.scripts import LIBRARY

        return f"{LIBRARY}-idle"

    @property
    def package(self) -> str:
        """The path of the package's archive on the machine, in `library`."""
        return f"{self.library}/fairway_boot.{self._boot[0]}.tar.bz2"

    @property
    def packed(self) -> str:
        """The content of the package's archive, in base64."""
        return base64.b64encode(self._boot[1]).decode()

    @cached_property
    def _boot(self) -> tuple[str, bytes]:
        from fairway_core import archives

        return archives.boot(archives.IDLE)


# A port of the loopback address, below Linux's ephemeral ports.
HEALTH_PORT = 18642


@dataclass(frozen=True, kw_only=True)
class NodeHealth:
    """Hardware of a healthy node: its NVIDIA GPUs, and its InfiniBand adapters that are up."""

    gpus: int
    adapters: int
