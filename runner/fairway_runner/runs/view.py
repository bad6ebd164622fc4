"""Facts about runs and their parameters as plain data, which pages, tables and JSON only
display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, InvalidRecord, section_of
from fairway_agent.state_files import TIMED_OUT, UNSUCCESSFUL_STATES, RunState
from fairway_core.findings import UserError
from fairway_runner.quantities import duration, iso, seconds
from fairway_runner.runs.folder import chosen_task, steps_to_begin
from fairway_runner.runs.records import SESSION, has_steps, legible_facts, read_json, settled_state

if TYPE_CHECKING:
    from fairway_core.cost.prices import Prices
    from fairway_runner.jobs.job_fields import ParamValue
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run

BEST = "the best"
"""Task of an input that is only chosen when the other run has ended."""


def run_facts(run: Run, status: RunState | None = None) -> dict[str, Any]:
    """Returns the facts of one run: ids, state and reason, tags, counts of its tasks by state,
    times in ISO 8601. Its recorded `status` may be given."""
    record, status, labels = run.record, status or run.status, run.labels
    counts: Counter[str] = Counter()
    for state, count in status.tasks.items():
        counts[settled_state(state, status.state)] += count
    return {
        "run_id": run.id,
        "name": record.name,
        "target": record.target,
        "state": status.state,
        "reason": reason_of(run, status),
        "limit": status.limit,
        "tags": list(labels.tags),
        "note": labels.note,
        "tasks": record.tasks,
        "task_states": dict(counts),
        "created": iso(record.created),
        "started": iso(status.started),
        "ended": iso(status.ended),
        "seconds": seconds(status.state, status.started, status.ended),
    }


def brief_facts(run: Run) -> dict[str, Any]:
    """Returns the facts that are printed when a run begins and ends."""
    target, tasks = run.record.target, run.record.tasks
    return {"run_id": run.id, "target": target, "tasks": tasks, "state": run.state}


def started_facts(run: Run) -> dict[str, Any]:
    """Returns the facts of a run that has begun, and of its steps those that no target has yet."""
    left = {"steps_to_begin": steps_to_begin(run)} if has_steps(run.folder) else {}
    return {**brief_facts(run), **left}


def cancel_facts(run: Run, task: str | None) -> dict[str, Any]:
    """Returns the state of a cancelled run, or of a run with a cancelled task, and of that task."""
    found: dict[str, Any] = {"run_id": run.id, "state": run.state}
    if task is not None:
        state = run.task_status(chosen_task(run, task), run.state).state
        found |= {"task": task, "task_state": state}
    return found


def target_facts(run: Run) -> dict[str, Any]:
    """Returns the targets that were passed over at submission, with the reasons."""
    passed = section_of(legible_facts(run.folder / "provenance.json"), "passed_over")
    return {"passed_over": {str(name): str(why) for name, why in passed.items()}}


def input_facts(run: Run) -> dict[str, Any]:
    """Returns the run, task and output behind each input that another run has kept, by name, and
    for a best task the metric and its value. Until the first task of this run begins, the best task
    of a run that was active is BEST, and the value None."""
    inputs = section_of(legible_facts(run.folder / "provenance.json"), "inputs")
    known = {name: each for name in inputs if (each := _kept_by(inputs[name]))}
    open_ones = {name for name, each in known.items() if each["task"] == BEST}
    with suppress(UserError, OSError):
        for index in range(run.record.tasks if open_ones and run.state != "queued" else 0):
            if best := run.task_status(index).best:
                for name in open_ones & best.keys():
                    number, value = best[name]
                    known[name] |= {"task": str(number), "value": value}
                break
    return known


def action_facts(run: Run) -> dict[str, Any]:
    """Returns the submitter of the run, and people's actions on it, if they share a server."""
    from fairway_runner.runs.labels import actions  # a new run has none

    done = actions(run.folder, run.record.created)
    return {"actions": [{**each, "at": iso(each["at"])} for each in done]}


def _kept_by(found: object) -> dict[str, Any] | None:
    try:
        fields = Fields(found, "an input")
        named = {name: fields.text(name) for name in ("run", "task", "output")}
        metric = fields.text_or_none("metric")
    except InvalidRecord:
        return None
    value = fields.facts.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if metric and (is_number or named["task"] == BEST):
        return {**named, "metric": metric, "value": value if is_number else None}
    return named


def reason_of(run: Run, status: RunState) -> str | None:
    """Returns the reason of a run's state. If none is recorded: its only task exceeded its time,
    its GPUs were idle, or a session unused; the tasks of a sweep report this themselves."""
    if status.reason or status.state != "failed" or run.record.tasks > 1:
        return status.reason
    with suppress(UserError, OSError):
        task = run.task_status(0)
        if task.timed_out or task.exit_code == TIMED_OUT:
            job = read_json(run.folder / "job.json")
            limit = job.get("timeout")
            if task.timed_out and task.reason:
                return task.reason
            took = seconds(task.state, task.started, task.ended) or 0.0
            # Some supervisors of the timeout do not distinguish the two.
            if job.get("template") == SESSION and took < (limit or took + 1):
                idle = job["options"].get("idle")
                return f"unused for {duration(idle)}" if idle else None
            if task.timed_out and limit:
                return f"it was over its timeout of {duration(limit)}"
    return None


_SHAPE = ("params", "nodes", "processes_per_node")
_STATE = ("state", "exit_code", "node", "gpus", "cores", "reason")


def task_facts(tasks: Iterable[TaskResult]) -> list[dict[str, Any]]:
    """Returns the facts of tasks: parameters, state, exit code, times, last metrics, unreadable
    metrics, and the path of the log."""
    known = ((task, *task.known_metrics()) for task in tasks)
    return [
        {
            "task": task.name if task.is_last else task.index,
            "last": task.is_last,
            **{name: getattr(task, name) for name in (*_SHAPE, *_STATE)},
            "empty_outputs": list(task.empty_outputs),
            "timed_out": task.timed_out,
            "attempts": task.attempts,
            "failures_by_cause": task.failures_by_cause,
            "started": iso(task.started),
            "ended": iso(task.ended),
            "seconds": seconds(task.state, task.started, task.ended),
            "metrics": metrics,
            "metrics_fault": fault,
            "log": str(task.run.log(task.index)),
        }
        for task, metrics, fault in known
    ]


@dataclass(frozen=True)
class RunView:
    """One run, from its folder or a server: in `head` everything but its tasks, as plain data, its
    tasks, and in `rows` a function for the facts of some of these."""

    head: dict[str, Any]
    tasks: Sequence[Any]
    rows: Callable[[Sequence[Any]], list[dict[str, Any]]] = task_facts

    @classmethod
    def of(cls, run: Run, *, has_currency: bool = True) -> RunView:
        """Reads the run. Raises UserError if it is unreadable. Unless `has_currency`, prices are
        read only for a run that should have one: most have none."""
        from fairway_runner.runs.figures import figures, summarize_use
        from fairway_runner.runs.usage import usage_of

        def prices() -> Prices:
            from fairway_core.cost.cache import cached_prices

            return cached_prices()

        facts, tasks, setup = run_facts(run), run.tasks, None
        if (status := run.setup_status(facts["state"])) is not None:
            setup = {
                "state": status.state,
                "exit_code": status.exit_code,
                "seconds": seconds(status.state, status.started, status.ended),
                "log": str(run.folder / "setup" / "log.txt"),
            }
        use = usage_of(run, tasks, prices)
        samples = [sample for some in figures(run).values() for sample in some]
        head = {
            **facts,
            **target_facts(run),
            "inputs": input_facts(run),
            **action_facts(run),
            "job_file": run.record.job_file,
            "metrics": list(run.record.metrics),
            "folder": run.place,
            "setup": setup,
            "cost": use.to_json(prices().currency if has_currency or use.is_priced else ""),
            "use": summarize_use(samples) or None,
        }
        return cls(head, tasks)

    @property
    def unsuccessful(self) -> list[Any]:
        """Tasks that did not succeed."""
        return [task for task in self.tasks if task.state in UNSUCCESSFUL_STATES]

    def to_json(self, *, failed: bool = False) -> dict[str, Any]:
        """Returns everything as plain data; with `failed` only the tasks that did not succeed."""
        return {**self.head, "task_list": self.rows(self.unsuccessful if failed else self.tasks)}


def varying_parameters(points: Sequence[Mapping[str, ParamValue]]) -> list[str]:
    """Returns the parameters that some points lack or that differ between two of them, in order.

    >>> varying_parameters([{"lr": 1, "epochs": 3}, {"lr": 1.0, "epochs": 3}])
    ['lr']
    """
    names = dict.fromkeys(name for point in points for name in point)
    # repr distinguishes 1 from 1.0 and from true.
    return [name for name in names if len({repr(point.get(name)) for point in points}) > 1]
