"""Arguments that several commands take, written once."""

from __future__ import annotations

from typing import Annotated

import typer

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job file.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or as much of it as no other begins with.")
]
TargetOption = Annotated[str, typer.Option("--target", "-t", help="Where to run.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Set a field of the job by its dotted path, such as params.epochs=2. Repeatable.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
