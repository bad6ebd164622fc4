"""`fairway report`: a page about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument, complete_metrics


def command(
    run: RunArgument,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="File to write; by default report-RUN.html."),
    ] = None,
    throughput: Annotated[
        str | None,
        Option(
            "--throughput",
            metavar="METRIC",
            help="Metric to measure scaling by; by default the first named per_second.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Write a page about a run: its tasks, metrics, sweep, scaling and nodes.

    The page is one file without scripts or external resources. An existing file is replaced.
    """
    from fairway_runner.output_file import write_output
    from fairway_runner.runs.report.page import page
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    found.refresh(logs=True, samples=True)
    file = write_output(output or Path(f"report-{found.id}.html"), page(found, throughput))
    print(json.dumps({"run_id": found.id, "file": str(file)}) if json_ else file)
