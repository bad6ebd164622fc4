"""`fairway top`: how a run uses its nodes."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument

if TYPE_CHECKING:
    from fairway_runner.runs.figures import Sample
    from fairway_runner.runs.store import Run

_PAUSE = 2.0  # seconds between two looks


def command(
    run: RunArgument,
    once: Annotated[bool, Option("--once", help="Print the last samples and return.")] = False,
    gpus: Annotated[bool, Option("--gpus", help="Show a line for each GPU.")] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Show how a run uses its nodes: GPUs, processors, memory, disks, network and InfiniBand.

    On a terminal it is drawn again until the run has ended. Nodes are sampled every 10 seconds;
    a job changes that with `sample_every`. Ctrl-C ends the table, and not the run.
    """
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    if json_ or once or not sys.stdout.isatty():
        from fairway_cli.ui.catalogue import sample_facts

        samples = _look(found)
        if json_:
            facts = {"run_id": found.id, "state": found.state, "nodes": sample_facts(samples)}
            print(json.dumps(facts, indent=1))
        else:
            print(_text(found, samples, gpus=gpus))
        return
    _draw(found, gpus=gpus)


def _look(run: Run) -> dict[str, Sample]:
    from fairway_runner.runs.figures import last_samples

    run.refresh(samples=True)
    return last_samples(run)


def _draw(run: Run, *, gpus: bool) -> None:
    from rich.live import Live
    from rich.text import Text

    from fairway_runner.runs.store import FINAL_STATES

    with Live(auto_refresh=False) as live:
        while True:
            samples = _look(run)
            ended = run.state in FINAL_STATES  # before it is drawn, which shows no less
            live.update(Text.from_ansi(_text(run, samples, gpus=gpus)), refresh=True)
            if ended:
                return
            time.sleep(_PAUSE)


def _text(run: Run, samples: dict[str, Sample], *, gpus: bool) -> str:
    """The table, and for all that was sampled a line in words."""
    from fairway_cli.ui.catalogue import gpu_table, use_table
    from fairway_runner.runs.figures import figures, in_words
    from fairway_runner.runs.store import FINAL_STATES

    if not samples:
        words = "was sampled" if run.state in FINAL_STATES else "has been sampled yet"
        return f"{run.id}  {run.state}\nnone of its nodes {words}"
    all_ = [sample for each in figures(run).values() for sample in each]
    table = (gpu_table(samples) if gpus else "") or use_table(samples)
    return f"{run.id}  {run.state}\n{table}\nso far: {in_words(all_)}"
