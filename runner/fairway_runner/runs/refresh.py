"""Brings the folders of many runs up to date, with one look at each target."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.runs import fallback

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import Run


def refresh_all(runs: Iterable[Run], *, logs: bool = False) -> list[Finding]:
    """Looks at the runs that go on elsewhere, and with `logs` brings what those with metrics
    have printed, also where they have ended; returns what is wrong with targets that do not
    answer, whose runs stay as they were last seen."""
    by_target: dict[tuple[str, str, bool], list[Run]] = {}
    movable: list[tuple[Run, bool]] = []
    for run in runs:
        try:
            elsewhere = not runs_here(run.record.engine) and not run.is_unsent
            printed = logs and bool(run.record.metrics)
            if elsewhere and not run.status.is_final and fallback.is_open(run.folder):
                movable.append((run, printed))  # it may go to another target meanwhile
            elif elsewhere and (printed or not run.status.is_final):
                key = (run.record.engine, run.record.target, printed)
                by_target.setdefault(key, []).append(run)
        except (UserError, OSError):
            continue  # the next to read it says what is wrong with it
    findings: list[Finding] = []
    looks = [partial(_refresh, some, logs=printed) for (*_, printed), some in by_target.items()]
    looks += [partial(run.refresh, logs=printed) for run, printed in movable]
    for look in looks:
        try:
            look()
        except UserError as error:
            findings += error.findings
    for run, _ in movable:
        run.reread()
    return findings


def _refresh(runs: Sequence[Run], *, logs: bool) -> None:
    """One look at the target that these runs are on."""
    runs[0].engine.refresh(runs, logs=logs)
