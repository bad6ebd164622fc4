"""Brings the folders of many runs up to date, with one look at each target."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.runs import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import Run

_AT_ONCE = 16  # targets


def refresh_all(
    runs: Iterable[Run], *, logs: bool = False, patience: float | None = None
) -> list[Finding]:
    """Looks at the runs that go on elsewhere, and with `logs` brings what those with metrics
    have printed, also where they have ended; returns what is wrong with targets that do not
    answer, whose runs stay as they were last seen.

    All targets are asked at a time; one that is away is asked once, and again for the seconds of
    `patience`, by default as long as its engine does.
    """
    by_target: dict[str, dict[tuple[str, bool], list[Run]]] = {}
    for run in runs:
        try:
            elsewhere = not runs_here(run.record.engine) and not run.is_unsent
            printed = logs and bool(run.record.metrics)
            # Runs of steps ask the targets of these, each for itself.
            place = run.id if steps.has_steps(run.folder) else run.record.target
            if elsewhere and (printed or not run.status.is_final):
                key = (run.record.engine, printed)
                by_target.setdefault(place, {}).setdefault(key, []).append(run)
        except (UserError, OSError):
            continue  # the next to read it says what is wrong with it
    looks: dict[str, list[Callable[[], None]]] = {}
    for place, groups in by_target.items():
        looks[place] = [
            partial(_look, some, logs=printed, patience=patience)
            for (_, printed), some in groups.items()
        ]
    if len(looks) > 1:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(_looked, looks.values()))
    else:
        found = [*map(_looked, looks.values())]
    return list(dict.fromkeys(chain.from_iterable(found)))


def _looked(looks: Iterable[Callable[[], None]]) -> list[Finding]:
    """What is wrong with a target at which these look, until it is away."""
    findings: list[Finding] = []
    for look in looks:
        try:
            look()
        except UserError as error:
            from fairway_runner.engines.absence import is_away

            findings += error.findings
            if is_away(error):
                break
    return findings


def _look(runs: Sequence[Run], *, logs: bool, patience: float | None) -> None:
    """One look at the target that these runs are on."""
    engine = runs[0].engine
    usual = engine.deadline
    engine.deadline = usual if patience is None else min(usual, patience)
    try:
        engine.refresh(runs, logs=logs)
    finally:
        engine.deadline = usual
