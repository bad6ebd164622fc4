"""One run as people read it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import state as coloured
from fairway_cli.ui.tables import task_table
from fairway_core.findings import printable
from fairway_runner.quantities import duration
from fairway_runner.runs.facts import task_facts
from fairway_runner.runs.varying import shown, varying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def print_overview(
    run: Run,
    facts: dict[str, Any],
    setup: dict[str, Any] | None,
    tasks: Sequence[TaskResult],
    limit: int,
    spent: Mapping[str, str],
) -> None:
    """The run, what of nodes it has `spent`, by title, and a line for each of the first `limit`
    tasks; 0 is all."""
    took = duration(facts["seconds"])
    print(f"{run.id}  {coloured(facts['state'])}  on {printable(facts['target'])}  {took}".rstrip())
    for line in _remarks(facts):
        print(line)
    for title, words in {**spent, "tries": _ends(tasks)}.items():
        if words:
            print(f"{title:<8}{words}")
    print(f"job     {printable(run.record.job_file)}")
    print(f"folder  {printable(str(run.folder))}")
    if facts["tasks"] > 1:
        counts = [f"{count:,} {state}" for state, count in facts["task_states"].items()]
        print(f"tasks   {', '.join(counts) or facts['tasks']}")
    if setup is not None:
        code = f", exit code {setup['exit_code']}" if setup["exit_code"] else ""
        print(f"setup   {coloured(setup['state'])}{code}  {duration(setup['seconds'])}".rstrip())
    names = _params(tasks)
    print()
    if not tasks:
        print("no such task")
        return
    some = tasks[:limit] if limit else tasks
    print(task_table(task_facts(some), names, list(run.record.metrics)))
    if len(some) < len(tasks):
        print(f"… and {len(tasks) - len(some):,} more; all of them: --limit 0")


def _remarks(facts: dict[str, Any]) -> Iterator[str]:
    """Why it stands where it does, where else it was tried and may still go, what is said of it."""
    if facts["reason"]:
        yield f"reason  {printable(facts['reason'])}"
    for each in facts["tried"]:
        if each["reason"]:
            when = f"{each['began']} to {each['ended']}"
            yield f"tried   {printable(each['target'])}, {when}: {printable(each['reason'])}"
    if facts["next_targets"]:
        yield f"next    {', '.join(map(printable, facts['next_targets']))}"
    for name, each in facts["inputs"].items():
        value = f" ({each['metric']}={each['value']:g})" if each.get("metric") else ""
        place = f"{each['output']} of task {each['task']} of {each['run']}{value}"
        yield f"input   {printable(f'{name}: {place}')}"
    if facts["tags"]:
        yield f"tags    {printable(' '.join(facts['tags']))}"
    for line in facts["note"].splitlines():
        yield f"note    {printable(line)}"


_CAUSES = {
    "error": ("an error", "errors"),
    "node": ("a lost node", "lost nodes"),
    "preemption": ("a preemption", "preemptions"),
}


def _ends(tasks: Sequence[TaskResult]) -> str:
    """By what attempts ended of tasks that were begun again, in words; "" where none was."""
    found: Counter[str] = Counter()
    for task in tasks:
        if task.attempts > 1:
            found.update(task.ends)
    words = [
        one if found[cause] == 1 else f"{found[cause]:,} {many}"
        for cause, (one, many) in _CAUSES.items()
        if found[cause]
    ]
    return f"ended by {', '.join(words)}" if words else ""


def _params(tasks: Sequence[TaskResult]) -> list[str]:
    """The names of those in which the tasks differ; prints the others."""
    params = [task.params for task in tasks if not task.is_last]
    names = varying(params) if params else []
    fixed = [f"{name}={shown(v)}" for name, v in (params or [{}])[0].items() if name not in names]
    if fixed:
        print(f"params  {' '.join(fixed)}")
    return names
