"""Has a task's nodes sampled while it runs, but for its first seconds: a short task pays nothing.

Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent import bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_GRACE = 10.0  # seconds for the samplers of other nodes to end


def sampler(run: Path | None, seconds: float, parent: int | None = None) -> list[str]:
    """The command line that samples the node on which it runs: into the run's folder, or to its
    output. It ends with the process `parent`, which is to start it directly; where another starts
    it, with that one, which it learns only once Python runs."""
    words = [*bundle.program("fairway_agent.figures.sampler"), str(run or "-"), f"{seconds:g}"]
    return words if parent is None else [*words, str(parent)]


@dataclass
class Sampling:
    """What samples the nodes, once the first seconds are over.

    A sample is taken every `seconds`, none where they are None. `words` makes the command line that
    runs a sampler on each node, and is asked when it starts; `environment` is that of the command,
    without secrets. What it prints is added to the file `printed`, if there is one.
    """

    seconds: float | None
    words: Callable[[float], list[str]]
    environment: Callable[[], Mapping[str, str]]
    printed: Path | None = None
    begun: float = field(default_factory=time.monotonic)
    process: subprocess.Popen[bytes] | None = None
    failed: bool = False

    @property
    def pid(self) -> int:
        """The id of the process that samples; 0 before it is started."""
        return 0 if self.process is None else self.process.pid

    def due(self) -> float | None:
        """When it is to be started, on the monotonic clock; None where it was, or is not to be."""
        if self.process is not None or self.failed or self.seconds is None:
            return None
        return self.begun + self.seconds

    def keep(self) -> None:
        """Starts it when it is due."""
        due = self.due()
        if self.seconds is None or due is None or time.monotonic() < due:
            return
        try:
            with open(self.printed or os.devnull, "ab") as out:  # noqa: PTH123
                self.process = subprocess.Popen(
                    self.words(self.seconds),
                    env=dict(self.environment()),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError:
            self.failed = True  # the task goes on without

    def wait_for(self, process: subprocess.Popen[bytes]) -> int:
        """Samples while the process runs; its exit code."""
        timer = threading.Timer(self.seconds or 0.0, self.keep)
        timer.daemon = True
        if self.seconds is not None:
            timer.start()
        code = process.wait()
        timer.cancel()
        if self.seconds is not None:
            timer.join()  # it may have been starting just then
        self.end()
        return code

    def end(self) -> None:
        """Ends it, and waits until it has."""
        self.failed = True
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
