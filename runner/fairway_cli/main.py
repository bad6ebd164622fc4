"""The `fairway` program: the commands put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import fairway_core
from fairway_cli.ending import ended
from fairway_cli.lazy import LazyGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


class Commands(LazyGroup):
    """Every command, in the order of the help, by the modules of `fairway_cli.commands`."""

    PACKAGE = "fairway_cli.commands"
    MODULES: ClassVar = {
        "jobs": ("submit", "render", "sweep", "templates", "retry", "rerun"),
        "list": ("list",),
        "runs": ("show", "wait", "cancel", "tag", "note", "clean"),
        "results": ("logs", "top", "best", "compare", "report", "fetch"),
        "serve": ("serve",),
        "targets": ("targets", "nodes", "pool"),
        "access": ("ssh", "ssh-config", "exec", "tunnel", "dev"),
        "schedule": ("schedule",),
        "data": ("data",),
        "environments": ("init", "check", "doctor", "sizes", "schema"),
        "cost": ("cost",),
        "synthesis": ("synth", "diagram", "lock", "bindings"),
        "plans": ("plan", "review", "deploy", "destroy", "comment"),
    }
    FOREIGN: ClassVar = {
        **dict.fromkeys(("run", "launch"), "fairway submit JOB"),
        **dict.fromkeys(("ps", "status", "queue"), "fairway list"),
        **dict.fromkeys(("stop", "kill"), "fairway cancel RUN"),
        "attach": "fairway logs --follow RUN",
        "down": "fairway pool resize TARGET 0, or to give up the machines: "
        "fairway destroy --stack compute",
        **dict.fromkeys(("teardown", "undeploy"), "fairway destroy"),
        "apply": "fairway deploy",
        "diff": "fairway plan",
        "validate": "fairway check, or for a job: fairway submit JOB --dry-run",
        "graph": "fairway diagram",
        "price": "fairway cost",
        "help": "fairway --help",
    }
    JOB_COMMANDS: ClassVar = frozenset({"submit", "render", "sweep"})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command that the arguments name, with the server that is to answer, if any."""
        name, found, rest = super().resolve_command(ctx, args)
        if ctx.params.get("server"):
            from fairway_cli.server import choose

            is_typed = ctx.get_parameter_source("server").name == "COMMANDLINE"
            choose(ctx.params["server"], name, ctx, is_typed=is_typed)
        return name, found, rest


app = typer.Typer(
    name="fairway",
    cls=Commands,
    help="Provision training clusters on Azure, and run jobs on them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairway {fairway_core.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="FAIRWAY_SERVER",
            help=(
                "Use a `fairway serve` elsewhere, for list, show, logs, fetch, submit, wait and "
                "cancel."
            ),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Provision training clusters on Azure, and run jobs on them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program; a user's error is printed as its findings and sets the exit code.
    `arguments` are those of the command line where they are not given. Ends in SystemExit."""
    ended(lambda: app(arguments))


if __name__ == "__main__":
    main()
