"""What a run's folder keeps of its submission, from which the run can be started again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fairway_agent import record
from fairway_core.findings import UserError
from fairway_runner.engines import capabilities
from fairway_runner.jobs.job import Job
from fairway_runner.runs.records import read_json, read_plan, removed
from fairway_runner.submit import snapshot as code
from fairway_runner.targets.lookup import all_targets, submitted_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_agent.plan import RunPlan
    from fairway_runner.runs.store import Run

# What is needed of each file: a key, and what it holds.
_NEEDED: dict[str, tuple[str, type]] = {
    "provenance.json": ("code", str),
}


def facts(run: Run, name: str) -> dict[str, Any]:
    """What one of its JSON files holds; UserError where that is too little."""
    try:
        value = read_json(run.folder / name)
    except (UserError, OSError):
        value = {}
    key, kind = _NEEDED.get(name, ("name", str))
    if not isinstance(value.get(key), kind):
        raise _unusable(run, name)
    return value


def plan(run: Run) -> RunPlan:
    """What the run is to do; UserError where that cannot be read."""
    return read_plan(run.folder)


def text(run: Run, name: str) -> str:
    """One of its files; UserError where it cannot be read."""
    try:
        return (run.folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def pieces(run: Run, name: str) -> Iterator[bytes]:
    """The same line by line, for one that may be very large."""
    try:
        with (run.folder / name).open("rb") as lines:
            for line in lines:
                line.decode()  # what is no text is not copied either
                yield line
    except (OSError, ValueError):
        raise _unusable(run, name) from None


def snapshots(run: Run) -> Path:
    """Where the snapshots of code of its project are."""
    return run.folder.parent.parent / "code"


def snapshot(run: Run) -> Path:
    """That of its own code, which may be gone."""
    return code.stored(facts(run, "provenance.json")["code"], snapshots(run))


# What a run's scripts and its plan are made for.
_FIXED = ("engine", "vm_size", "mounts", "storage")


def retarget(run: Run) -> bool:
    """Gives a run of which nothing was sent its target as that is known now; whether it is another.
    UserError where the tasks were made for what the target no longer is."""
    found = all_targets().get(run.record.target) if run.is_unsent else None
    if found is None or found.target == (was := submitted_to(run)):
        return False
    now = found.target
    if changed := [name for name in _FIXED if getattr(now, name) != getattr(was, name)]:
        message = f"`{now.name}` has changed since {run.id} was recorded: {', '.join(changed)}"
        hint = f"submit the job again from its file, and: fairway cancel {run.id}"
        raise UserError.of("changed-target", message, hint)
    record.write_json(run.folder / "target.json", now.record())
    run.reread()
    return True


def require(run: Run) -> None:
    """UserError where its target cannot run its job, or no longer can: what a submission is
    refused for."""
    given = {**facts(run, "job.json"), "sweep": None}
    try:
        job = Job.model_validate(given)
    except ValidationError:
        raise _unusable(run, "job.json") from None
    engine = run.engine
    capabilities.require(job, engine.target)
    engine.require(job, plan(run).needs)


def _unusable(run: Run, name: str) -> UserError:
    path = run.folder / name
    message = f"{path}: missing or damaged"
    return removed(path) or UserError.of(
        "damaged-run", message, "submit the job again from its file"
    )
