"""Shell completions, such as run ids and targets. They are quick, and never fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_runner.targets import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic import BaseModel

    from fairway_runner.runs.store import Run


def runs(incomplete: str) -> list[str]:
    """The ids of this project's runs, the newest first."""
    from fairway_core.findings import UserError
    from fairway_core.project_folder import find_project

    try:
        folder = find_project()[0] / ".fairway" / "runs"
        with os.scandir(folder) as entries:
            found = [
                (entry.stat().st_mtime, entry.name)
                for entry in entries
                if entry.name.startswith(incomplete) and not entry.name.startswith(".")
            ]
    except (OSError, UserError):
        return []
    return [name for _, name in sorted(found, reverse=True)]


def templates(incomplete: str) -> list[str]:
    """The templates that a job in this folder can name."""
    try:
        from fairway_runner.jobs.templates import all_templates

        known = all_templates(Path.cwd())
    except Exception:  # noqa: BLE001 - a shell has no place for an error
        return []
    return [name for name in known if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """`local`, and the targets of the project."""
    try:
        from fairway_runner.targets.lookup import all_targets

        known = list(all_targets())
    except Exception:  # noqa: BLE001 - as above
        known = [LOCAL]
    return [name for name in known if name.startswith(incomplete)]


def environments(incomplete: str) -> list[str]:
    """The environments of the project, and those that come with Fairway."""
    try:
        from fairway_core.environment.selection import known_environments

        known = list(known_environments())
    except Exception:  # noqa: BLE001 - as above
        return []
    return [name for name in known if name.startswith(incomplete)]


def metrics(ctx: object, incomplete: str) -> list[str]:
    """The metrics of the run that the command line names."""
    try:
        from fairway_runner.runs.store import RunStore

        known = RunStore.here().find(_argument(ctx, "run") or "").record.metrics
    except Exception:  # noqa: BLE001 - as above
        return []
    return [name for name in known if name.startswith(incomplete)]


def settings(ctx: object, incomplete: str) -> list[str]:
    """Completes the fields that `-s` can set: those of a job, and those present in the named job
    file or run."""
    try:
        from fairway_core.documents import read
        from fairway_runner.jobs.job import Job
        from fairway_runner.runs.store import RunStore

        known = set(_fields(Job))
        if run := _argument(ctx, "run"):
            known |= set(_paths(read(RunStore.here().find(run).folder / "job.yaml").data))
        elif job := _argument(ctx, "job"):
            known |= set(_paths(read(job).data))
    except Exception:  # noqa: BLE001 - as above
        return []
    return sorted(f"{path}=" for path in known if path.startswith(incomplete))


def _argument(ctx: Any, name: str) -> str | None:
    """Returns the value of an argument or option on the command line.

    While an option has no value yet, the arguments before it have not been assigned.
    """
    if given := ctx.params.get(name):
        return str(given)
    command = getattr(ctx, "command", None)
    every = getattr(command, "params", ())
    places = [each.name for each in every if each.param_type_name == "argument"]
    return next(iter(ctx.args), None) if places[:1] == [name] else None


def _fields(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """The dotted paths of a model's fields, and of those of the models in them."""
    from pydantic import BaseModel

    for name, field in model.model_fields.items():
        path = before + (field.alias or name)
        yield path
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{path}.")


def _paths(data: object, before: str = "") -> Iterator[str]:
    """The dotted paths of what is not a mapping."""
    if not isinstance(data, dict):
        yield before.rstrip(".")
        return
    for key, value in data.items():
        yield from _paths(value, f"{before}{key}.")


def tags(incomplete: str) -> list[str]:
    """The tags that this project's runs have."""
    return [tag for tag in _of_all_runs(lambda run: run.tags) if tag.startswith(incomplete)]


def columns(incomplete: str) -> list[str]:
    """The columns that a list of this project's runs can have; those before are kept."""
    from fairway_runner.runs.query import FACTS

    before, comma, last = incomplete.rpartition(",")
    metrics = _of_all_runs(lambda run: [f"metric:{name}" for name in run.record.metrics])
    return [before + comma + each for each in (*FACTS, *metrics) if each.startswith(last)]


def groups(incomplete: str) -> list[str]:
    """By what the costs of runs are put together."""
    from fairway_runner.runs.accounting import BY

    return [each for each in BY if each.startswith(incomplete)]


def _of_all_runs(words: Callable[[Run], Iterable[str]]) -> list[str]:
    """The words of each run, each once."""
    try:
        from fairway_runner.runs.store import RunStore

        return sorted({word for run in RunStore.here().unsorted() for word in words(run)})
    except Exception:  # noqa: BLE001 - as above
        return []
