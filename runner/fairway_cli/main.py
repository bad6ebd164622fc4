"""The `fairway` program: its commands, whose options are built only when one of them runs.

Typer builds the arguments of every command to print a list of their names, which takes longer than
most commands do. Here the list is a table of names.
"""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

import fairway_core
from fairway_cli.ending import run_to_end
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = (str, int, float, bool)
_FILES = ("JOB", "[ENVIRONMENT]")  # arguments that are paths, or may be, as they are typed


class PlainValue:
    """Wrapper of an option's adapter that passes values of the option's type unchanged. Typer
    parses or refuses anything else, such as the digits of a number."""

    def __init__(self, option: Any) -> None:
        self._annotation: Any = option.type_descriptor.annotation
        self._adapter = option.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the option's value. Raises Typer's BadParameter for an invalid one, and UserError
        for an empty path, which Python takes for the current folder."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if value == "" and (self._annotation is Path or param.metavar in _FILES):
            hint = "name a path, or leave it out; is a variable of your shell empty?"
            raise UserError.of("bad-value", f"{param.opts[0]}: the path is empty", hint)
        if get_origin(self._annotation) is list:
            if isinstance(value, (list, tuple)) and _all_are(get_args(self._annotation)[0], value):
                return list(value)
        elif _all_are(self._annotation, [value]):
            return value
        return self._adapter().coerce(value, param=param, ctx=ctx)


def _all_are(kind: Any, values: Sequence[Any]) -> bool:
    return kind in _PLAIN and all(type(each) is kind for each in values)


def take_plainly(command: Any) -> None:
    """Lets the command parse its options, including `--help`, without pydantic if they do not need
    it. An earlier Typer's options, which have no such adapters, are left alone.

    Its usage shows arguments as they are typed, and flags without a value: the newest Typer puts
    names into brackets of its own, `[[ENVIRONMENT]]`, and `<bool>` behind a flag.
    """
    every = command.get_params

    def get_params(ctx: Any) -> Any:
        options = every(ctx)
        for option in options:
            given = "get_runtime_param" in vars(option)
            kind = getattr(option, "type_descriptor", None)
            if not given and kind is not None and kind.parameter_info.parser is None:
                plain = PlainValue(option)
                option.get_runtime_param = lambda plain=plain: plain
            if option.param_type_name == "argument":
                option.get_usage_pieces = partial(_typed, option)
            elif option.is_flag:
                option.display_type_rich = lambda **_: None
        return options

    command.get_params = get_params


_LAST = 3  # runs to suggest if a command names none

# Typer takes click's exceptions from its own module, or from click itself.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """Every command, in the order of the help, by the modules of `fairway_cli.commands`, which have
    a function or a group of that name; `_` follows a name that Python reserves.

    FOREIGN maps other programs' names for these commands to ours; JOB_COMMANDS read a job file, and
    all but OFFLINE have a --deadline for the services that they ask.
    """

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
    OFFLINE: ClassVar = (
        *("init", "sizes", "schema", "render", "templates", "tag", "note", "ssh-config", "sync"),
        *("synth", "diagram", "lock", "bindings", "review", "comment", "destroy"),
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in self.names():
            self.add_command(TyperCommand(name))
        take_plainly(self)

    @classmethod
    def names(cls) -> list[str]:
        return [name for names in cls.MODULES.values() for name in names]

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        """Returns a command for a list, without its options; None for an unknown name."""
        if name not in self.commands:
            return None
        found = self.found(name)
        text = found.info.help if isinstance(found, typer.Typer) else found.__doc__
        return TyperCommand(name, help=str(text).partition("\n")[0])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Returns the command that the arguments name, with its options, and chooses the server
        that answers it, if any. Raises UserError for a name that only other programs have."""
        if args and args[0] not in self.commands:
            from difflib import get_close_matches

            word = args[0]
            near = get_close_matches(word, [*self.commands, *self.FOREIGN], 1)
            if near and near[0] in self.FOREIGN:
                message = f"there is no command `fairway {word}`"
                raise UserError.of("unknown-command", message, f"type: {self.FOREIGN[near[0]]}")
        name, found, rest = super().resolve_command(ctx, args)
        if name is not None:
            found = self.imported(name)
        if ctx.params.get("server") is not None:
            from fairway_cli.commands.arguments import choose_server

            is_typed = ctx.get_parameter_source("server").name == "COMMANDLINE"
            choose_server(ctx.params["server"], name, ctx, is_typed=is_typed)
        return name, found, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. Raises UserError for an option of the job file, and without a RUN."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            option = getattr(error, "option_name", "")
            command = getattr(getattr(error, "ctx", None), "info_name", "")
            if option and command in self.JOB_COMMANDS:
                from fairway_runner.jobs.job import Job

                name = option.lstrip("-").replace("-", "_")
                if name in Job.model_fields:
                    message = f"`fairway {command}` has no option `{option}`"
                    hint = f"set fields of the job with -s: fairway {command} JOB -s {name}=VALUE"
                    raise UserError.of("unknown-option", message, hint) from None
            missing = getattr(getattr(error, "param", None), "metavar", "")
            if type(error).__name__ == "MissingParameter" and missing in ("RUN", "RUN…"):
                _require_run(command, is_here=not ctx.params.get("server"))
            raise

    @classmethod
    def found(cls, name: str) -> Any:
        """Returns a command's function, or group of commands, from its module."""
        (module,) = (each for each, names in cls.MODULES.items() if name in names)
        place, name = import_module(f"fairway_cli.commands.{module}"), name.replace("-", "_")
        return getattr(place, name, None) or getattr(place, f"{name}_")

    @classmethod
    def imported(cls, name: str) -> Any:
        """Returns the command of that name with its options."""
        found = cls.found(name)
        if isinstance(found, typer.Typer):
            return _ready(typer.main.get_command(found))
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        return _ready(typer.main.get_command(alone))


def _require_run(command: str, *, is_here: bool) -> NoReturn:
    """Raises UserError for a command without a run; it lists the last ones if they are here."""
    from fairway_runner.runs.query import select
    from fairway_runner.runs.store import RunStore

    found = select(RunStore.here(), limit=_LAST).runs if is_here else []
    last = ", ".join(run.id for run, _ in reversed(found))
    hint = f"the last ones: {last}" if last else "list them: fairway list"
    raise UserError.of("no-run", f"`fairway {command}` needs the ID of a run", hint)


def _ready(command: Any) -> Any:
    """Returns the command with fast parsing of its options, and each paragraph of its help on one
    line, as Typer keeps the line breaks of a docstring."""
    from fairway_cli.commands.arguments import deadline_option

    below = getattr(command, "commands", {})
    for each in below.values():
        _ready(each)
    if command.name not in Commands.OFFLINE and (not below or command.invoke_without_command):
        command.params.append(deadline_option())
    take_plainly(command)
    if command.help:
        command.help = re.sub(r"(?<=[^\n])\n(?=[^\n\s])(?![-*] )", " ", command.help)
    return command


def _typed(argument: Any, ctx: Any) -> list[str]:  # noqa: ARG001 - it stands in for a method
    """Returns `RUN`, `NODE…`, or `[ENVIRONMENT]` for an optional one."""
    name: str = argument.metavar or argument.name.upper()
    return [name if argument.required or name.startswith("[") else f"[{name}]"]


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
    `arguments` default to the command line's. Ends in SystemExit."""
    run_to_end(lambda: app(arguments))


if __name__ == "__main__":
    main()
