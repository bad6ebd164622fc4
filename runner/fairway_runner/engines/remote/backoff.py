"""How long a connection that breaks is tried again, and how often."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_FIRST = 0.5  # seconds until the second try; each pause is twice as long as the one before
_LONGEST = 15.0
_UNKNOWN = 3  # tries of a host that has never answered: its name or the network may be wrong


@dataclass
class Backoff:
    """Tries of one thing: `seconds` in all, and few where the host was never reached."""

    seconds: float
    began: float = field(default_factory=time.monotonic)
    tries: int = 0

    @property
    def left(self) -> float:
        """The seconds that are left; below 0 where none are."""
        return self.began + self.seconds - time.monotonic()

    def pause(self, *, reached: bool) -> bool:
        """Waits until the next try; False where there is to be none."""
        self.tries += 1
        pause = min(_LONGEST, _FIRST * 2 ** (self.tries - 1))
        left = self.left
        if left <= 0 or (not reached and self.tries >= _UNKNOWN):
            return False
        time.sleep(min(pause, left))
        return True
