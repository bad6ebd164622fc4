"""Types of the fixtures that make runs and call the program in this process."""

from collections.abc import Callable

from fairway_runner.runs.store import Run

MakeRun = Callable[..., Run]
RunFairway = Callable[..., tuple[int, str, str]]
