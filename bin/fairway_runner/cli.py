"""The `fairway` program: the commands put together, and the one place that catches errors."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import fairway_core
from fairway_core.findings import UserError, format_finding
from fairway_runner.commands import cancel, list, logs, render, show, submit, wait  # noqa: A004

app = typer.Typer(
    name="fairway",
    help="Submit training jobs to what was provisioned, and follow them to their end.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (submit, render, list, show, logs, wait, cancel):
    app.command(name=module.__name__.rpartition(".")[2])(module.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairway {fairway_core.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Submit training jobs to what was provisioned, and follow them to their end."""


def main() -> None:
    """Runs the program; a user's error is printed as its findings and sets the exit code."""
    try:
        app()
    except UserError as error:
        for finding in error.findings:
            print(format_finding(finding), file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader went away (`fairway logs RUN | head`): nothing is left to say.
        sys.stderr.close()
        sys.exit(141)


if __name__ == "__main__":
    main()
