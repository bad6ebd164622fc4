"""The best tasks of other runs, whose outputs are inputs of a run that waited for them.

Which task that is, is decided once, when the first task of the waiting run begins, and written down
in the run's control record: all of its tasks, and a retry, read the same. Standard library only.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, state_files
from fairway_agent.metric_logs import best_of, last_values
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.spec import Best, Chained, RunPlan
    from fairway_agent.state_files import BestTasks


def read(folder: Path) -> BestTasks:
    """Reads the best tasks chosen for a run; empty before they are chosen."""
    return control.read(folder).best


def decide(folder: Path, plan: RunPlan) -> BestTasks:
    """Decides what is not decided yet; Fault where a run has no best task.

    Several tasks that begin at the same time decide alike: the other run has ended.
    """
    wanted = [each for each in plan.chained if each.best is not None]
    known = dict(read(folder)) if wanted else {}
    if missing := [each for each in wanted if each.name not in known]:
        known |= {each.name: _best(folder.parent, each) for each in missing}
        with suppress(OSError):  # on a full disk the next one decides again
            control.change(folder, plan.submission, best=known)
    return known


def _best(runs: Path, entry: Chained) -> tuple[int, float]:
    """The number of the best task of the run that an input names, and its value.

    As with `fairway best`, those count that have succeeded.
    """
    assert entry.best is not None
    run, metric = runs / entry.path.split("/")[1], entry.best.metric
    pattern = {metric: _compiled(entry.best)}
    found = []
    for number in range(job_facts.read_plan(run).tasks - (run / "finally.jsonl").exists()):
        folder = run / "tasks" / str(number)
        state = state_files.read_task(folder)
        if state is not None and state.state == "succeeded":
            values = last_values(folder / "log.txt", pattern)
            found += [(value, number) for value in values.values()]
    if not found:
        message = f"no task of {run.name} that succeeded has printed `{metric}`"
        raise Fault("no-metric", message, f"its pattern is: {entry.best.pattern}")
    value, number = best_of(found, lower=entry.best.lower)
    return number, value


def _compiled(best: Best) -> re.Pattern[str]:
    """The pattern of the metric; Fault where the Python of this machine is too old for it."""
    try:
        return re.compile(best.pattern)
    except re.error as error:
        version = ".".join(map(str, sys.version_info[:2]))
        message = f"the pattern of the metric `{best.metric}` is none for Python {version}: {error}"
        hint = f"write it so that Python {version} takes it: {best.pattern}"
        raise Fault("bad-metric", message, hint) from None
