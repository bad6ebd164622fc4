"""A clock that a test controls, in place of the machine's."""

from dataclasses import dataclass, field
from types import ModuleType

import pytest


@dataclass
class Clock:
    """A clock that moves only when a test sets it, and during sleep."""

    now: float = 1e9
    slept: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType, now: float = 1e9) -> "Clock":
        """Replaces `time` in these modules by a new clock."""
        clock = cls(now)
        for module in modules:
            monkeypatch.setattr(module, "time", clock)
        return clock

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        """Differs from `time`, so that code which mixes the two fails."""
        return self.now - 5

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        assert self.slept < 86_400, "it waits for ever"
        self.now += seconds
