"""Fairway from Python: submit training jobs, follow them, and read their results.

>>> from fairway_hpc import Job, runs, submit
>>> run = submit(Job(name="hello", command="echo hello"))  # doctest: +SKIP
>>> run.wait()  # doctest: +SKIP
"""

# Each name is imported when it is first used: `import fairway_hpc` costs next to nothing.

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_core import __version__
    from fairway_core.findings import Finding, UserError
    from fairway_hpc.api import compare, costs, rerun, runs, submit
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.store import Run
    from fairway_runner.targets.lookup import KnownTarget, all_targets

__all__ = [
    "Finding",
    "Job",
    "KnownTarget",
    "Run",
    "UserError",
    "__version__",
    "all_targets",
    "compare",
    "costs",
    "rerun",
    "runs",
    "submit",
]

_MODULES = {
    "Job": "fairway_runner.jobs.job",
    "Run": "fairway_runner.runs.store",
    "__version__": "fairway_core",
    **dict.fromkeys(("Finding", "UserError"), "fairway_core.findings"),
    **dict.fromkeys(("KnownTarget", "all_targets"), "fairway_runner.targets.lookup"),
    **dict.fromkeys(("compare", "costs", "rerun", "runs", "submit"), "fairway_hpc.api"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
