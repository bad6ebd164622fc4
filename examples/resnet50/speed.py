"""Speed of the training: the measured intervals, and the lines that report it."""

import time
from dataclasses import dataclass, field


@dataclass
class Speed:
    """Images and seconds of the measured intervals: those after the warm-up."""

    images: int = 0
    seconds: float = 0.0
    _since: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        """Begins an interval."""
        self._since = time.perf_counter()

    def stop(self, images: int, *, counts: bool) -> float:
        """Ends an interval of that many images; returns images per second."""
        seconds = time.perf_counter() - self._since
        if counts:
            self.images += images
            self.seconds += seconds
        return images / seconds

    @property
    def images_per_second(self) -> float | None:
        """Images per second of all measured intervals; None if there are none."""
        return self.images / self.seconds if self.seconds else None


def summary(total: float, processes: int, single: float | None) -> str:
    """Formats the benchmark: images per second in all, per process, and relative to `single`.

    >>> summary(123.4, 2, single=None)
    'total images/s: 123.4 on 2 processes, 61.7 each'

    With `single` it ends: "; scaling efficiency 87% against one process at 71.0".
    """
    plural = "" if processes == 1 else "es"
    each = total / processes
    line = f"total images/s: {total:.1f} on {processes} process{plural}, {each:.1f} each"
    if single is None:
        return line
    efficiency = each / single
    return f"{line}; scaling efficiency {efficiency:.0%} against one process at {single:.1f}"
