"""Commands for what runs print, measure and leave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_cli.ui.columns import has_colours, shown_files
from fairway_core.findings import UserError, counted, printable
from fairway_runner.quantities import number, size

if TYPE_CHECKING:
    from fairway_runner.runs.figures import Sample
    from fairway_runner.runs.store import Run


def logs(
    run: arguments.RunArgument,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Follow the log until the run has ended.")
    ] = False,
    task: Annotated[
        str | None, Option(metavar="TASK", help="Only this task: from 0, or setup, or finally.")
    ] = None,
    rank: Annotated[
        int | None, Option(min=0, help="Only this rank, if the log names ranks.")
    ] = None,
    node: Annotated[int | None, Option(min=0, help="Only the ranks of this node, from 0.")] = None,
    attempt: Annotated[
        int | None, Option(min=1, help="Only this attempt of each task, from 1.")
    ] = None,
    tail: Annotated[
        int | None,
        Option("--tail", "-n", metavar="N", min=0, help="Only the last N lines of each log."),
    ] = None,
    grep: Annotated[
        str | None, Option(metavar="PATTERN", help="Only lines that match this regular expression.")
    ] = None,
    json_: Annotated[
        bool, Option("--json", help="Print JSON: one object per line of the log.")
    ] = False,
) -> None:
    """Print what a run printed; lines of several tasks begin with the task, as [3].

    A log of several ranks names them where the launcher can: lines begin with the
    rank, or with task and rank, as [3.1], each in a colour of its own on a terminal. --tail takes
    the last lines of what the other options leave.
    With --json each line is an object with `task`, `attempt`, `rank` and `text`.
    An attempt that is not the first begins with a line that says why there is another.
    Where its target does not answer, what is known here is printed, and the exit code is 5; with
    --follow it is asked again until the deadline.
    """
    from fairway_cli.ui.follow import Shape, copy_logs
    from fairway_cli.ui.progress import is_away
    from fairway_runner.runs import log_lines as lines
    from fairway_runner.runs.folder import log_owner

    expression = lines.pattern(grep, "--grep")
    found, task = log_owner(arguments.run_store().find(run), task)
    # Following refreshes anyway. The output of a rank is searched in the log.
    looks = not follow or rank is not None or node is not None
    away = looks and is_away(found, lambda: found.refresh(logs=True))
    named = lines.names_ranks(found)
    several = named or (task is None and found.record.tasks > 1)
    coloured = several and not json_ and has_colours()
    ranks = lines.ranks_wanted(found, task, rank, node)
    logs = lines.logs_of(found, task, ranks)
    selection = lines.Selection(logs, ranks, attempt, expression, tail)
    if attempt is not None and not follow and task != "setup":
        lines.require_attempt(found, lines.task_numbers(found, task), attempt)
    shape = Shape(coloured, named, json_)
    copy_logs(found, selection, sys.stdout.buffer, shape, follow=follow)
    if follow and found.state == "lost":
        message = f"{found.id} is lost: {found.status.reason or 'its target no longer knows it'}"
        hint = f"run it again: fairway retry {found.id}"
        raise UserError.of("lost-run", message, hint, exit_code=5)
    if away and not follow:
        raise Exit(5)


_PAUSE = 2.0  # seconds between two refreshes


def top(
    run: arguments.RunArgument,
    once: Annotated[bool, Option("--once", help="Print the last samples and return.")] = False,
    gpus: Annotated[bool, Option("--gpus", help="Show a line for each GPU.")] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Show how a run uses its nodes: GPUs, processors, memory, disks, network and InfiniBand.

    On a terminal it is drawn again until the run has ended. Nodes are sampled every 10 seconds;
    a job changes that with `sample_every`. Ctrl-C ends the table, and not the run.
    """
    from fairway_cli.ui.catalogue import sample_facts
    from fairway_cli.ui.progress import redraw
    from fairway_runner.runs.store import FINAL_STATES

    found = arguments.run_store().find(run)
    if json_ or once or not sys.stdout.isatty():
        samples = _look(found)
        if json_:
            facts = {"run_id": found.id, "state": found.state, "nodes": sample_facts(samples)}
            print(json.dumps(facts, indent=1))
        else:
            print(_text(found, samples, gpus=gpus))
        return

    def drawn() -> tuple[str, bool]:
        samples = _look(found)
        ended = found.state in FINAL_STATES  # read first: the picture shows at least that
        return _text(found, samples, gpus=gpus), ended

    redraw(drawn, _PAUSE)


def _look(run: Run) -> dict[str, Sample]:
    from fairway_runner.runs.figures import last_samples

    run.refresh(samples=True)
    return last_samples(run)


def _text(run: Run, samples: dict[str, Sample], *, gpus: bool) -> str:
    from fairway_cli.ui.catalogue import gpu_table, use_table
    from fairway_runner.runs.figures import figures, summarize_use
    from fairway_runner.runs.store import FINAL_STATES

    if not samples:
        words = "was sampled" if run.state in FINAL_STATES else "has been sampled yet"
        return f"{run.id}  {run.state}\nnone of its nodes {words}"
    all_ = [sample for each in figures(run).values() for sample in each]
    table = (gpu_table(samples) if gpus else "") or use_table(samples)
    return f"{run.id}  {run.state}\n{table}\nso far: {summarize_use(all_)}"


def best(
    run: arguments.RunArgument,
    lowest: Annotated[
        bool | None,
        Option(
            "--min/--max",
            help=(
                "Which value is best; by default what the job's `better:` says, or the "
                "metric's name implies."
            ),
        ),
    ] = None,
    metric: Annotated[
        str | None,
        Option(
            "--metric",
            "-m",
            help="The metric, if the job has several.",
            autocompletion=arguments.complete_metrics,
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Show the task with the lowest or highest final value of a metric.

    Failed and cancelled tasks are ignored, and so are those that have diverged: their last value
    is nan or infinite. Running ones count.
    """
    from fairway_agent.metric_logs import diverged_words
    from fairway_runner.quantities import format_cell
    from fairway_runner.runs.results import best
    from fairway_runner.runs.view import task_facts

    found = arguments.run_store().find(run)
    found.refresh(logs=True)
    first = best(found, metric, lowest=lowest)
    if json_:
        facts = {"run_id": found.id, "metric": first.metric, "value": first.value}
        facts |= {"diverged": list(first.diverged), **task_facts([first.task])[0]}
        print(json.dumps(facts, indent=1))
        return
    value = f"{first.metric} {number(first.value)}"
    print(printable(f"task {first.task.index} of {found.id}: {value}"))
    for parameter, setting in first.task.params.items():
        print(printable(f"  {parameter}: {format_cell(setting)}"))
    if said := diverged_words(first.metric, first.diverged):
        print(printable(f"not counted: {said}"), file=sys.stderr)


def compare(
    runs: arguments.RunsArgument,
    csv: Annotated[bool, Option("--csv", help="Print comma-separated values.")] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Compare runs side by side: their settings and their results.

    A line for each task: the parameters and fields of the job that are not the same in all of
    them, the last, lowest and highest value of each metric, the time it took, and the commit,
    with a + where files differed from it.
    """
    from fairway_cli.ui.runs import comparison_table, write_csv
    from fairway_runner.runs.report.data import compare
    from fairway_runner.runs.store import refresh_all

    if csv and json_:
        raise UserError.of("bad-value", "--csv and --json cannot be combined", "give one of them")
    store = arguments.run_store()
    found = [store.find(run) for run in runs]
    warn(*refresh_all(found, logs=True))
    records = compare(found)
    if json_:
        print(json.dumps(records, indent=1))
    elif csv:
        write_csv(records)
    else:
        print(comparison_table(records))


def report(
    run: arguments.RunArgument,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="File to write; by default report-RUN.html."),
    ] = None,
    throughput: Annotated[
        str | None,
        Option(
            metavar="METRIC",
            help="Metric to measure scaling by; by default the first named per_second.",
            autocompletion=arguments.complete_metrics,
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Write a page about a run: its tasks, metrics, sweep, scaling and nodes.

    The page is one file without scripts or external resources. An existing file is replaced.
    """
    from fairway_runner.output_file import write_output
    from fairway_runner.runs.report.page import page

    found = arguments.run_store().find(run)
    found.refresh(logs=True, samples=True)
    file = write_output(output or Path(f"report-{found.id}.html"), page(found, throughput))
    print(json.dumps({"run_id": found.id, "file": str(file)}) if json_ else file)


_SHOWN = 20


def fetch(
    run: arguments.RunArgument,
    task: arguments.TaskOption = None,
    to: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Destination; by default a folder named for the run."),
    ] = None,
    force: arguments.ForceOption = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Copy the outputs and logs of a run to FOLDER/TASK/.

    If other files are in the way, nothing is copied; --force replaces them.
    """
    from fairway_runner.runs.outputs import fetch

    found = arguments.run_store().find(run)
    found.refresh(logs=True)
    with shown_files(found.id, quiet=json_) as arrived:
        fetched = fetch(found, to or Path(found.id), task, force=force, arrived=arrived)
    if json_:
        facts = {"folder": str(fetched.folder), "files": fetched.files, "bytes": fetched.size}
        facts |= {"unchanged": fetched.unchanged, "lacking": fetched.lacking}
        print(json.dumps(facts, indent=1))
        return

    for name in fetched.files[:_SHOWN]:
        print(printable(str(fetched.folder / name)))
    if len(fetched.files) > _SHOWN:
        print(f"… and {len(fetched.files) - _SHOWN:,} more")
    same = f"; {fetched.unchanged:,} were already there" if fetched.unchanged else ""
    count = counted(len(fetched.files), "file")
    print(f"{count}, {size(fetched.size)}, in {fetched.folder}{same}")
    for each in fetched.lacking[:_SHOWN]:
        why = "is empty" if each["was_empty"] else "is no longer there"
        said = f"{each['run_id']} task {each['task']}: the output `{each['output']}` {why}"
        print(printable(said), file=sys.stderr)
    if len(fetched.lacking) > _SHOWN:
        print(f"… and {len(fetched.lacking) - _SHOWN:,} more outputs", file=sys.stderr)
