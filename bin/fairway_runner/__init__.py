"""Submits training jobs to what was provisioned, and follows them to their end.

>>> from fairway_runner import Job, runs, submit
>>> run = submit(Job(name="hello", command="echo hello"))  # doctest: +SKIP
>>> run.wait()  # doctest: +SKIP
"""

# Nothing is imported here before it is asked for: a supervisor begins with this module, and
# may have nothing but Python's standard library.

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_runner.api import runs, submit
    from fairway_runner.job import Job
    from fairway_runner.run_store import Run

__all__ = ["Job", "Run", "runs", "submit"]

_PLACES = {"Job": "job", "Run": "run_store", "runs": "api", "submit": "api"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
