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
    """Every command with the first line of its docstring, in the order of the help. Its function is
    `command` in the module of its name in `fairway_cli.commands`."""

    PACKAGE = "fairway_cli.commands"
    COMMANDS: ClassVar = {
        "submit": "Submit a job and print the run ID once it has started.",
        "render": "Print the script that a job would run; nothing is started.",
        "sweep": (
            "List the points of a job's sweep with the parameters of each; nothing is started."
        ),
        "templates": "List the launcher templates, or explain one: requirements, options, usage.",
        "list": "List the runs of this project, the newest last.",
        "show": "Show a run: its state, its tasks and its files.",
        "logs": "Print what a run printed; lines of several tasks begin with the task, as [3].",
        "top": (
            "Show how a run uses its nodes: GPUs, processors, memory, disks, network and "
            "InfiniBand."
        ),
        "wait": (
            "Wait until runs have ended, print their states, and exit with the first failing code."
        ),
        "cancel": "Cancel runs: signal their programs, and kill them after the grace period.",
        "retry": "Run the unsuccessful tasks of an ended run again.",
        "rerun": "Start a new run with the job and the code of an earlier one.",
        "best": "Show the task with the lowest or highest final value of a metric.",
        "compare": "Compare runs side by side: their settings and their results.",
        "tag": "Add tags to a run, remove some, or print those it has.",
        "note": "Write a note about a run, or print the one it has.",
        "report": "Write a page about a run: its tasks, metrics, sweep, scaling and nodes.",
        "serve": "Show the runs of this project in a browser, with a REST API under /api/v1.",
        "fetch": "Copy the outputs and logs of a run to FOLDER/TASK/.",
        "targets": "List the targets that jobs can run on, or read them from a deployment.",
        "nodes": (
            "List, stop, start, drain, resume, reboot, reimage or report a target's nodes, or copy"
            " their logs."
        ),
        "pool": "Change the number of nodes of a target.",
        "ssh": "Open a shell on a node of a target, or run a command there.",
        "ssh-config": (
            "Print the `Host` blocks by which ssh, scp, rsync and VS Code reach targets."
        ),
        "exec": ("Run a command in the environment, folder and container of a running task."),
        "dev": "Work in a session on a target's nodes, with your code kept in sync.",
        "tunnel": (
            "Forward a port of a run's main host to this machine, such as TensorBoard's 6006."
        ),
        "schedule": "Run a job on a recurring schedule.",
        "data": "Copy files to and from a target's storage, and from there to its nodes.",
        "clean": "Remove runs that have ended, with their logs, outputs and checkpoints.",
        "init": "Create a project: an environment, an example job and CI workflows.",
        "check": "Check an environment file for mistakes.",
        "doctor": "Check the prerequisites of a deployment, and print a fix for each one missing.",
        "cost": "Show what an environment costs per hour and per month.",
        "review": "Show what Terraform plans would change, cost and destroy.",
        "synth": "Generate Terraform for an environment, one directory per stack in cdktf.out.",
        "plan": "Plan every stack of an environment, and review what would change.",
        "deploy": "Apply an approved plan, and nothing else.",
        "destroy": "Destroy an environment, or some of its stacks, once that was approved.",
        "lock": "Lock the provider that plans and deployments may run.",
        "comment": "Print the comment of a pull request, from reviews that its own code made.",
        "diagram": "Draw an environment: networks, clusters, file systems and connections.",
        "sizes": "List the VM sizes that Fairway knows.",
        "bindings": "Write typed Python classes for resources that the construct library lacks.",
        "schema": "Print the JSON schema of environment files or job files, for editors.",
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
