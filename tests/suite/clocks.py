"""A clock of a test's own, in place of the machine's."""

from dataclasses import dataclass, field
from types import ModuleType

import pytest


@dataclass
class Clock:
    """Goes on when a test says so, and while somebody sleeps."""

    now: float = 1e9
    slept: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType, now: float = 1e9) -> "Clock":
        """The clock of these modules, in the place of their `time`."""
        clock = cls(now)
        for module in modules:
            monkeypatch.setattr(module, "time", clock)
        return clock

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        """Begins elsewhere than `time`: who mixes the two is found."""
        return self.now - 5

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        assert self.slept < 86_400, "it waits for ever"
        self.now += seconds
