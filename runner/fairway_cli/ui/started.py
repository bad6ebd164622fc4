"""What is said of a run that has just been started, and while it is watched to its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from fairway_core.findings import printable
from fairway_runner.runs.steps import ENGINE, has_steps, to_begin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.runs.records import RunRecord
    from fairway_runner.runs.store import Run

Changes = Mapping[str, tuple[Any, Any]]

_DETACHED = 130
_NAMED = 5  # steps; of more their number is said
_IN_JSON = ("run_id", "target", "tasks", "state")


def print_prepared(record: RunRecord, others: Sequence[str] = (), *, json_: bool = False) -> None:
    """What a submission would start, and on which other targets that may be."""
    if json_:
        facts = {"target": record.target, "tasks": record.tasks, "dry_run": True}
        print(json.dumps({**facts, **({"next_targets": [*others]} if others else {})}))
        return
    kind = "step" if record.engine == ENGINE else "task"
    tasks = f"1 {kind}" if record.tasks == 1 else f"{record.tasks:,} {kind}s"
    where = ", or else on ".join([record.target, *others])
    print(f"{record.name} is valid; it would start {tasks} on {where}")


def print_started(
    run: Run, *, json_: bool = False, quiet: bool = False, changes: Changes | None = None
) -> None:
    """The run's id and how to go on; `quiet` is the id alone. `changes` are those from an
    earlier run."""
    from fairway_runner.runs.facts import run_facts, target_facts

    facts, left = run_facts(run), target_facts(run)["next_targets"]
    with _named(run):
        if json_:
            more: dict[str, Any] = {} if changes is None else {"changes": changes}
            more |= {"next_targets": left} if left else {}
            more |= {"steps_to_begin": to_begin(run)} if has_steps(run.folder) else {}
            print(json.dumps({**{name: facts[name] for name in _IN_JSON}, **more}))
        elif quiet:
            print(run.id)
        else:
            print(f"{run.id} runs on {facts['target']}")
            for line in changes_shown(changes or {}):
                print(line)
            if has_steps(run.folder):
                print(_who_begins(run.id, to_begin(run)))
            if left:
                print(f"  or else on: {', '.join(left)}, by: fairway wait {run.id}")
            print(f"  follow it:  fairway logs {run.id} -f")
            print(f"  end it:     fairway cancel {run.id}")


def _who_begins(run: str, left: Sequence[str]) -> str:
    """By what the steps begin that no target has yet, and which machine has to stay on for it."""
    if not left:
        return "  its steps begin by themselves, also where no command follows it"
    names = ", ".join(left[:_NAMED]) + (f" and {len(left) - _NAMED} more" * (len(left) > _NAMED))
    return f"  this machine has to stay on for: {names}, begun by: fairway wait {run}"


def changes_shown(changes: Changes) -> Iterator[str]:
    """A line for each field that was changed: its value before and after."""
    from fairway_runner.runs.varying import shown

    for name, values in changes.items():
        texts = [json.dumps(each) if isinstance(each, dict) else shown(each) for each in values]
        before, after = (printable(text) or "(none)" for text in texts)
        yield f"  {printable(name)}: {before} → {after}"


@contextmanager
def _named(run: Run) -> Iterator[None]:
    """Names the run on standard error where standard output cannot be written: a caller that
    did not learn that it was started would start it a second time."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is None:
            with suppress(OSError):
                print(f"{run.id} was started; see: fairway show {run.id}", file=sys.stderr)
        raise


def print_ended(run: Run, *, json_: bool = False) -> None:
    """How a run that was watched has ended."""
    from fairway_runner.runs.facts import run_facts

    facts = run_facts(run)
    if json_:
        more = {"exit_code": run.exit_code, "reason": facts["reason"]}
        print(json.dumps({**{name: facts[name] for name in _IN_JSON}, **more}))
        return
    from fairway_runner.quantities import duration

    spent = f" after {duration(facts['seconds'])}" if facts["seconds"] else ""
    reason = facts["reason"] or (None if run.is_sweep else _reason_of_its_task(run, facts["state"]))
    why = f" ({printable(reason)})" if reason else ""
    print(f"{run.id} {facts['state']}{spent}{why}; its files are in {run.folder}")


def _reason_of_its_task(run: Run, state: str) -> str | None:
    """Why the one task of a run failed, where that is known."""
    if state == "succeeded":
        return None
    return run.task_status(0, state).reason


def watch_to_the_end(run: Run, *, json_: bool = False, quiet: bool = False) -> int:
    """Follows a run until it has ended; returns its exit code, or 130 where a person stopped
    watching. With `json_` all but the last line goes to standard error."""
    with _named(run):
        if not json_ and not quiet:
            print(f"{run.id} runs on {run.record.target}", flush=True)
        try:
            _follow(run, sys.stderr if json_ else sys.stdout, quiet=quiet)
        except KeyboardInterrupt:
            print(
                f"\n{run.id} is still running; to end it: fairway cancel {run.id}", file=sys.stderr
            )
            return _DETACHED
        print_ended(run, json_=json_)
    return run.exit_code


def _follow(run: Run, out: TextIO, *, quiet: bool) -> None:
    if not quiet and run.is_sweep:
        from fairway_cli.ui.progress import watch_tasks

        watch_tasks(run, out)
    elif not quiet:
        from fairway_cli.ui.follow import Selection, copy_logs
        from fairway_cli.ui.log_lines import LineFilter
        from fairway_runner.runs.log_lines import names_ranks

        # Where the log itself goes to standard error, that has nothing else.
        remarks = out is not sys.stderr
        selection = Selection.of(run, lines=LineFilter(named=names_ranks(run)))
        copy_logs(run, selection, out.buffer, follow=True, remarks=remarks)
    run.wait()
