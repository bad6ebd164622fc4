"""One run as people read it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from fairway_cli.ui.columns import state as coloured
from fairway_cli.ui.run_costs import cost_line
from fairway_cli.ui.tables import task_table
from fairway_core.findings import printable
from fairway_runner.quantities import duration
from fairway_runner.runs.facts import BEST, task_facts
from fairway_runner.runs.varying import shown, varying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class Task(Protocol):
    """What an overview needs of each task, also of those that it has no line for."""

    @property
    def attempts(self) -> int:
        """How many were begun."""

    @property
    def ends(self) -> Mapping[str, int]:
        """Those that did not end well, by their cause."""

    @property
    def is_last(self) -> bool:
        """Whether it is the job's `finally`."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its parameters."""


def print_overview(
    facts: Mapping[str, Any],
    tasks: Sequence[Task],
    limit: int,
    rows: Callable[[Sequence[Any]], list[dict[str, Any]]] = task_facts,
) -> None:
    """The run, by all that `show --json` says of it but its tasks, and a line for each of the first
    `limit` of those; 0 is all. `rows` makes the facts of those that have one."""
    took = duration(facts["seconds"])
    setup = facts["setup"]
    name, target = printable(facts["run_id"]), printable(facts["target"])
    print(f"{name}  {coloured(printable(facts['state']))}  on {target}  {took}".rstrip())
    for line in _remarks(facts):
        print(line)
    spent = {"cost": cost_line(facts["cost"]), "use": facts["use"], "tries": _ends(tasks)}
    for title, words in spent.items():
        if words:
            print(f"{title:<8}{printable(words)}")
    print(f"job     {printable(facts['job_file'])}")
    print(f"folder  {printable(facts['folder'])}")
    if facts["tasks"] > 1:
        counts = [f"{count:,} {state}" for state, count in facts["task_states"].items()]
        print(f"tasks   {printable(', '.join(counts)) or facts['tasks']}")
    if setup is not None:
        code = f", exit code {setup['exit_code']}" if setup["exit_code"] else ""
        state = coloured(printable(setup["state"]))
        print(f"setup   {state}{code}  {duration(setup['seconds'])}".rstrip())
    names = _params(tasks)
    print()
    if not tasks:
        print("no such task")
        return
    some = tasks[:limit] if limit else tasks
    print(task_table(rows(some), names, facts["metrics"]))
    if len(some) < len(tasks):
        print(f"… and {len(tasks) - len(some):,} more; all of them: --limit 0")


def _remarks(facts: Mapping[str, Any]) -> Iterator[str]:
    """Why it stands where it does, and why not elsewhere, and what is said of it."""
    if facts["reason"]:
        yield f"reason  {printable(facts['reason'])}"
    for target, reason in facts["passed_over"].items():
        yield "passed  " + printable(f"{target}: {reason}")
    for name, each in facts["inputs"].items():
        yield f"input   {printable(f'{name}: {_origin(each)}')}"
    for each in facts.get("actions", ()):  # a server may be older
        yield "by      " + printable(f"{each['by']}, {each['at']}: {each['action']}")
    if facts["tags"]:
        yield f"tags    {printable(' '.join(facts['tags']))}"
    for line in facts["note"].splitlines():
        yield f"note    {printable(line)}"


def _origin(kept: Mapping[str, Any]) -> str:
    """Which output of which run an input is, and of the best task by which metric."""
    task, by = "the best task" if kept["task"] == BEST else f"task {kept['task']}", ""
    if metric := kept.get("metric"):
        by = f" (by {metric})" if kept["value"] is None else f" ({metric}={kept['value']:g})"
    return f"{kept['output']} of {task} of {kept['run']}{by}"


_CAUSES = {
    "error": ("an error", "errors"),
    "node": ("a lost node", "lost nodes"),
    "preemption": ("a preemption", "preemptions"),
}


def _ends(tasks: Sequence[Task]) -> str:
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


def _params(tasks: Sequence[Task]) -> list[str]:
    """The names of those in which the tasks differ; prints the others."""
    params = [task.params for task in tasks if not task.is_last]
    names = varying(params) if params else []
    fixed = [f"{name}={shown(v)}" for name, v in (params or [{}])[0].items() if name not in names]
    if fixed:
        print(f"params  {printable(' '.join(fixed))}")
    return names
