"""Where runs stand, as commands tell it: also of a run that is named by the beginning of its ID."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError, finding_facts
from fairway_runner.runs.folder import chosen_task
from fairway_runner.runs.kept import empty_outputs
from fairway_runner.runs.log_lines import names_ranks
from fairway_runner.runs.store import RunStore, refresh_all
from fairway_runner.runs.view import iso, run_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.findings import Finding
    from fairway_runner.runs.query import Column
    from fairway_runner.runs.store import Run
    from fairway_web.project import Runs

_MOST_FINDINGS = 8  # in a header
_LONGEST = 300


def find(runs: Runs, text: str) -> Run:
    """The run with that ID, or the only one whose ID begins so; UserError otherwise."""
    try:
        return runs.find(text)
    except UserError:
        return runs.find(RunStore(runs.base).find(text).id)


def look(run: Run) -> None:
    """Asks the target of a run where it stands; UserError where that does not answer."""
    run.refresh(logs=True)


def look_at_all(runs: Runs, columns: Sequence[Column]) -> list[Finding]:
    """Asks all targets of runs that go on; what is wrong with those that do not answer."""
    return refresh_all(runs.unsorted(), logs=any(each.is_metric for each in columns))


def facts(run: Run) -> dict[str, Any]:
    """Its state and why, its exit code once it has ended, and when its target last said so."""
    status, known = run.status, run_facts(run)
    return {
        "run_id": run.id,
        "target": known["target"],
        "state": status.state,
        "reason": known["reason"],
        "exit_code": run.exit_code if status.is_final else None,
        "empty_outputs": empty_outputs(run) if status.is_final else [],
        "last_known": iso(run.last_known),
        "labels_ranks": names_ranks(run),
    }


def cancelled(run: Run, task: str | None) -> dict[str, Any]:
    """What `fairway cancel --json` prints of a run."""
    found: dict[str, Any] = {"run_id": run.id, "state": run.state}
    if task is not None:
        state = run.task_status(chosen_task(run, task), run.state).state
        found |= {"task": task, "task_state": state}
    return found


def told(finding: Finding) -> dict[str, Any]:
    """A finding for a client that has the line itself: also how much of it is meant."""
    facts: dict[str, Any] = finding_facts(finding)
    return {**facts, "length": finding.location.length} if finding.location else facts


def findings_header(findings: Iterable[Finding]) -> str:
    """Findings beside a list, which has no place for them: the first few, in ASCII."""
    some = [told(_short(each)) for each in [*findings][:_MOST_FINDINGS]]
    return json.dumps(some)


def _short(finding: Finding) -> Finding:
    return replace(finding, message=finding.message[:_LONGEST], hint=finding.hint[:_LONGEST])
