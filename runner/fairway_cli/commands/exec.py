"""`fairway exec`: a command beside a run."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, RunArgument


def command(
    run: RunArgument,
    words: Annotated[
        list[str], Argument(metavar="-- COMMAND…", help="The command to run.", show_default=False)
    ],
    task: Annotated[
        str | None,
        Option(
            "--task", metavar="TASK", help="The task to join; by default the first that is running."
        ),
    ] = None,
    node: Annotated[
        int | None, Option("--node", min=0, help="On this node of the task, from 0.")
    ] = None,
    rank: Annotated[
        int | None, Option("--rank", min=0, help="The rank to join, on its node.")
    ] = None,
    _deadline: DeadlineOption = None,
) -> None:
    """Run a command in the environment, folder and container of a running task.

    For example `fairway exec RUN -- nvidia-smi`, or `bash`. The process beside which it runs is in
    FAIRWAY_PID: `fairway exec RUN --rank 3 -- sh -c 'py-spy dump --pid $FAIRWAY_PID'`. It exits
    with the command's code.
    """
    from fairway_runner.runs.store import RunStore, enter

    found = RunStore.here().find(run, going=True)
    raise Exit(enter(found, words, task=task, node=node, rank=rank))
