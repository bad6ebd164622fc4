"""A run on a terminal from its start to its end: announcements, progress, and a live list."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from fairway_cli.ending import warn
from fairway_core.findings import printable
from fairway_runner.quantities import duration, format_cell, format_names, number, seconds
from fairway_runner.runs.records import has_steps
from fairway_runner.runs.store import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fairway_agent.state_files import TaskState
    from fairway_cli.ui.follow import Remarks
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def watch_tasks(run: Run, out: TextIO) -> None:
    """Prints the end of each task until that of the run, and on standard error why it waits."""
    from fairway_cli.ui.columns import state as coloured
    from fairway_cli.ui.follow import Remarks
    from fairway_runner.runs.results import task_results
    from fairway_runner.runs.view import varying_parameters

    tasks = task_results(run)
    names = varying_parameters([task.params for task in tasks if not task.is_last])
    with _reporter(run, len(tasks), out) as report:
        remarks = None if out is sys.stderr else Remarks(run)
        faults: set[str] = set()
        for task, status in _ends(run, tasks, remarks):
            metrics, fault = task.known_metrics()
            own = {} if task.is_last else task.params
            figures = [f"{name}={format_cell(own[name])}" for name in names if name in own]
            figures += [f"{name}={number(value)}" for name, value in metrics.items()]
            words = [f"[{task.name}]", coloured(status.state, out), *map(printable, figures)]
            if status.exit_code:
                words.append(f"exit code {status.exit_code}")
            if status.started and status.ended:
                words.append(duration(status.ended - status.started))
            report(status.state, " ".join(words))
            if fault and fault not in faults:
                faults.add(fault)
                print(printable(fault), file=sys.stderr, flush=True)


def _ends(
    run: Run, tasks: list[TaskResult], remarks: Remarks | None
) -> Iterator[tuple[TaskResult, TaskState]]:
    open_, seen = list(tasks), None
    for status in run.looks(logs=bool(run.record.metrics)):
        ended = status.is_final
        if remarks is not None and not ended:
            remarks.look()
        counts = status.tasks
        if ended or counts != seen:
            seen = counts
            left = []
            for position, task in enumerate(open_):
                # Tasks start in order, so none of the following ones has started.
                if not ended and not (run.task_folder(task.index) / "state.json").exists():
                    left += open_[position:]
                    break
                found = run.task_status(task.index, status.state)
                if found.is_final:
                    yield task, found
                else:
                    left.append(task)
            open_ = left


@contextmanager
def _reporter(run: Run, count: int, out: TextIO) -> Iterator[Callable[[str, str], None]]:
    if not out.isatty():
        yield lambda _, line: print(line, file=out, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    words, failures = TextColumn("{task.description}"), TextColumn("{task.fields[failed]}")
    columns = (words, BarColumn(), MofNCompleteColumn(), failures, TimeElapsedColumn())
    with Progress(*columns, console=Console(file=out)) as progress:
        bar = progress.add_task(run.id, total=count, failed="")
        failed = 0

        def report(state: str, line: str) -> None:
            nonlocal failed
            failed += state != "succeeded"
            progress.console.print(Text.from_ansi(line))
            progress.update(bar, advance=1, failed=f"{failed} failed" if failed else "")

        yield report
    out.flush()


Changes = Mapping[str, tuple[Any, Any]]

_NAMED = 5  # steps to list; beyond that, only a number


def print_started(
    run: Run,
    *,
    json_: bool = False,
    quiet: bool = False,
    changes: Changes | None = None,
    by_server: bool = False,
    asked: float = 0.0,
) -> None:
    """Prints the run's id and next commands; only the id if `quiet`. `changes` are those from an
    earlier run; `by_server` says that a server advances it. `asked` is when the command began, in
    seconds since 1970: an older run was submitted before."""
    from fairway_runner.runs.view import started_facts

    known = started_facts(run) | ({} if changes is None else {"changes": changes})
    left: Sequence[str] | None = known.get("steps_to_begin")
    with _named(run.id):
        if json_:
            print(json.dumps(known))
            return
        if quiet:
            print(run.id)
            return
        if ended := _ended_before(run, asked):
            print("\n".join(map(printable, ended)))
            return
        print(printable(f"{run.id} runs on {known['target']}"))
        for line in changes_shown(changes or {}):
            print(line)
        if left is not None:
            by = "" if by_server else f", by: fairway wait {run.id}, or fairway serve"
            who = f"{'this machine' if by else 'the server'} has to stay on to begin: "
            by_themselves = "its steps begin by themselves, even if no command follows it"
            print(
                printable(f"  {who + format_names(left, _NAMED) + by if left else by_themselves}")
            )
        print(printable(f"  follow it:  fairway logs {run.id} -f"))
        print(printable(f"  end it:     fairway cancel {run.id}"))


def _ended_before(run: Run, asked: float) -> list[str]:
    """Returns lines that say that a resubmitted run has ended already; none for other runs."""
    state = run.state
    if run.record.created >= asked or state not in FINAL_STATES:
        return []
    again = f"fairway {'rerun' if state == 'succeeded' else 'retry'} {run.id}"
    if state == "succeeded" and has_steps(run.folder):
        again = "submit it with another --run-id"
    return [
        f"{run.id} has ended already: {state}; nothing was started",
        f"  see it:     fairway show {run.id}",
        f"  run again:  {again}",
    ]


def changes_shown(changes: Changes) -> Iterator[str]:
    """Yields a line for each changed field: its value before and after."""
    for name, values in changes.items():
        texts = [
            json.dumps(each) if isinstance(each, dict) else format_cell(each) for each in values
        ]
        before, after = (printable(text) or "(none)" for text in texts)
        yield f"  {printable(name)}: {before} → {after}"


@contextmanager
def _named(run_id: str) -> Iterator[None]:
    """Names the run on standard error if writing to standard output fails in the block: a caller
    that did not learn of its start would start it a second time."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is None:
            with suppress(OSError):
                print(f"{run_id} was started; see: fairway show {run_id}", file=sys.stderr)
        raise


def print_ended(run: Run, *, json_: bool = False) -> None:
    from fairway_runner.runs.output_files import empty_outputs

    status = run.status
    reason = status.reason
    if json_ or status.state != "succeeded":  # a success is one line
        from fairway_runner.runs.view import brief_facts, reason_of

        reason = reason_of(run, status)
    if json_:
        print(json.dumps({**brief_facts(run), "exit_code": run.exit_code, "reason": reason}))
    else:
        took = seconds(status.state, status.started, status.ended)
        spent = f" after {duration(took)}" if took else ""
        if not reason and not run.is_sweep and status.state != "succeeded":
            reason = run.task_status(0, status.state).reason
        why = f" ({reason})" if reason else ""
        print(printable(f"{run.id} {status.state}{spent}{why}; its files are in {run.place}"))
    print_empty(run.id, empty_outputs(run))


def print_empty(run_id: str, found: Sequence[Mapping[str, Any]]) -> None:
    """Names the empty outputs of a run's tasks on standard error, if there are any."""
    from fairway_runner.runs.output_files import name_empty_outputs

    if said := name_empty_outputs(run_id, found):
        print(printable(f"{run_id}: {said}"), file=sys.stderr, flush=True)


def watch_to_the_end(
    run: Run, *, json_: bool = False, quiet: bool = False, asked: float = 0.0
) -> int:
    """Follows a run until it has ended; returns its exit code, or 130 if the user stopped watching.
    With `json_` all but the last line goes to standard error. `asked` is as for `print_started`."""
    with _named(run.id):
        if not json_ and not quiet:
            begun = [f"{run.id} runs on {run.record.target}"]
            print("\n".join(map(printable, _ended_before(run, asked) or begun)), flush=True)
        try:
            out = sys.stderr if json_ else sys.stdout
            if not quiet and run.is_sweep:
                watch_tasks(run, out)
            elif not quiet:
                from fairway_cli.ui.follow import Shape, copy_logs
                from fairway_runner.runs.log_lines import Selection, logs_of, names_ranks

                # If the log itself goes to standard error, nothing else may.
                remarks = out is not sys.stderr
                shape = Shape(named=names_ranks(run), terminated=remarks)
                selection = Selection(logs_of(run))
                copy_logs(run, selection, out.buffer, shape, follow=True, remarks=remarks)
            run.wait()
        except KeyboardInterrupt:
            how = f"to end it: fairway cancel {run.id}"
            print(f"\n{run.id} is still running; {how}", file=sys.stderr)
            return 130
        print_ended(run, json_=json_)
    return run.exit_code


def watch_until_ended(
    look: Callable[[], list[dict[str, Any]]], *, draws: bool, pause: float
) -> None:
    """Looks at runs until all have ended; `draws` shows each look on the terminal."""

    def have_ended(runs: list[dict[str, Any]]) -> bool:
        return all(run["state"] in FINAL_STATES for run in runs)

    if draws:
        from fairway_cli.ui.runs import run_table

        redraw(lambda: (run_table(runs := look()), have_ended(runs)), pause)
        return
    while not have_ended(look()):
        time.sleep(pause)


def redraw(look: Callable[[], tuple[str, bool]], pause: float) -> None:
    """Redraws a text on the terminal until it is final."""
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        while True:
            text, is_last = look()
            live.update(Text.from_ansi(text), refresh=True)
            if is_last:
                return
            time.sleep(pause)


def is_away(run: Run, ask: Callable[[], object]) -> bool:
    """Refreshes the run with `ask`; returns True, after a message, if its target did not answer."""
    from fairway_core.findings import UserError
    from fairway_runner.engines.outage import clock

    try:
        ask()
    except UserError as error:
        if error.exit_code != 5:
            raise
        warn(*error.findings)
        print(f"{run.id} is shown as last known at {clock(run.last_known)}", file=sys.stderr)
        return True
    return False
