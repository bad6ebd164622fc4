"""A group of commands that are imported only when one of them runs.

Typer builds the arguments of every command to print a list of their names, which takes
longer than most commands do. Here the list is a table of names and sentences.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_PLAIN = (str, int, float, bool)


class PlainValue:
    """Stands before an option's adapter: what has the option's type already passes as it is.
    Anything else, such as the digits of a number, is Typer's to read or to refuse."""

    def __init__(self, option: Any) -> None:
        self._annotation: Any = option.type_descriptor.annotation
        self._adapter = option.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The option's value; Typer's BadParameter where it is none."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if get_origin(self._annotation) is list:
            if isinstance(value, (list, tuple)) and _all_are(get_args(self._annotation)[0], value):
                return list(value)
        elif _all_are(self._annotation, [value]):
            return value
        return self._adapter().coerce(value, param=param, ctx=ctx)


def _all_are(kind: Any, values: Sequence[Any]) -> bool:
    return kind in _PLAIN and all(type(each) is kind for each in values)


def take_plainly(command: Any) -> None:
    """Lets the command read its options, `--help` too, without pydantic where they do not need it.
    Those of an earlier Typer, which has no such adapters, are left as they are.

    Its usage has arguments as they are typed, and its flags no value: the newest Typer puts names
    into brackets of its own, `[[ENVIRONMENT]]`, and `<bool>` behind a flag."""
    every = command.get_params

    def get_params(ctx: Any) -> Any:
        options = every(ctx)
        for option in options:
            if _has_adapter(option):
                plain = PlainValue(option)
                option.get_runtime_param = lambda plain=plain: plain
            if option.param_type_name == "argument":
                option.get_usage_pieces = partial(_typed, option)
            elif option.is_flag:
                option.display_type_rich = lambda **_: None
        return options

    command.get_params = get_params


def _has_adapter(option: Any) -> bool:
    """True if Typer would build an adapter, and no function of the option's own."""
    given = "get_runtime_param" in vars(option)
    kind = getattr(option, "type_descriptor", None)
    return not given and kind is not None and kind.parameter_info.parser is None


_LAST = 3  # runs that are named where a command names none

# Typer has click's exceptions in a module of its own, or in click itself.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class LazyGroup(TyperGroup):
    """A group whose COMMANDS map each name to one line of help.

    The module of that name in PACKAGE holds a function `command`, whose docstring begins
    with that line, or a group of further commands, `app`, with that help. FOREIGN are names
    that other programs have for these commands, each with what is typed here; JOB_COMMANDS are
    those that read a job file.
    """

    PACKAGE: ClassVar[str]
    COMMANDS: ClassVar[Mapping[str, str]] = {}
    FOREIGN: ClassVar[Mapping[str, str]] = {}
    JOB_COMMANDS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, line in self.COMMANDS.items():
            self.add_command(TyperCommand(name, help=line))
        take_plainly(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command that the arguments name, which is imported now."""
        if args and args[0] not in self.COMMANDS:
            self._refuse_foreign(args[0])
        name, found, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.COMMANDS:
            found = self.imported(name)
        return name, found, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; an option that belongs into the job file is answered with that."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            option = getattr(error, "option_name", "")
            command = getattr(getattr(error, "ctx", None), "info_name", "")
            if option and command in self.JOB_COMMANDS:
                _refuse_field(command, option)
            missing = getattr(getattr(error, "param", None), "metavar", "")
            if type(error).__name__ == "MissingParameter" and missing in ("RUN", "RUN…"):
                _require_run(command, is_here=not ctx.params.get("server"))
            raise

    def _refuse_foreign(self, word: str) -> None:
        """UserError for a name of other programs, which may be misspelt."""
        from difflib import get_close_matches

        near = get_close_matches(word, [*self.COMMANDS, *self.FOREIGN], 1)
        if near and near[0] in self.FOREIGN:
            from fairway_core.findings import UserError

            message = f"there is no command `fairway {word}`"
            raise UserError.of("unknown-command", message, f"type: {self.FOREIGN[near[0]]}")

    @classmethod
    def imported(cls, name: str) -> Any:
        """The whole command of that name."""
        module = import_module(f"{cls.PACKAGE}.{name.replace('-', '_')}")
        if hasattr(module, "app"):
            return _ready(typer.main.get_command(module.app))
        alone = typer.Typer(add_completion=False)
        alone.command(name)(module.command)
        return _ready(typer.main.get_command(alone))


def _require_run(command: str, *, is_here: bool) -> NoReturn:
    """UserError where no run is named, with the last ones of this project."""
    from fairway_core.findings import UserError
    from fairway_runner.runs.query import select
    from fairway_runner.runs.store import RunStore

    found = select(RunStore.here(), limit=_LAST).runs if is_here else []
    last = ", ".join(run.id for run, _ in reversed(found))
    hint = f"the last ones: {last}" if last else "list them: fairway list"
    raise UserError.of("no-run", f"`fairway {command}` needs the ID of a run", hint)


def _refuse_field(command: str, option: str) -> None:
    """UserError where what was typed as an option is a field of the job."""
    from fairway_core.findings import UserError
    from fairway_runner.jobs.job import Job

    name = option.lstrip("-").replace("-", "_")
    if name in Job.model_fields:
        message = f"`fairway {command}` has no option `{option}`"
        hint = f"set fields of the job with -s: fairway {command} JOB -s {name}=VALUE"
        raise UserError.of("unknown-option", message, hint)


def _ready(command: Any) -> Any:
    """The command, quick to read its options, with each paragraph of its help in one line for a
    terminal of any width: Typer prints the line breaks of a docstring as they are."""
    for each in getattr(command, "commands", {}).values():
        _ready(each)
    take_plainly(command)
    if command.help:
        command.help = re.sub(r"(?<=[^\n])\n(?=[^\n\s])(?![-*] )", " ", command.help)
    return command


def _typed(argument: Any, ctx: Any) -> list[str]:  # noqa: ARG001 - it stands in for a method
    """`RUN`, `NODE…`, or `[ENVIRONMENT]` for one that may be left out."""
    name: str = argument.metavar or argument.name.upper()
    return [name if argument.required or name.startswith("[") else f"[{name}]"]


def group_with_default(default: str) -> type[TyperGroup]:
    """A group in which a word that is no command was once an argument of `default`. What was typed
    is refused with the command line to type now."""

    class Group(TyperGroup):
        """A group that knows its earlier spelling."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """The arguments; UserError where they begin with an option of a command."""
            own = {name for each in self.get_params(ctx) for name in each.opts}
            if args and args[0].startswith("-") and args[0] not in own and "-h" not in args:
                _refuse_order(f"fairway {ctx.info_name}", default, list(self.commands), args)
            return super().parse_args(ctx, args)

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
            """The command that the arguments name; UserError where there is none."""
            if args and not args[0].startswith("-") and args[0] not in self.commands:
                _refuse(f"fairway {ctx.info_name}", default, list(self.commands), args)
            found: tuple[Any, Any, list[str]] = super().resolve_command(ctx, args)
            return found

    return Group


def group_for_words(default: str) -> type[TyperGroup]:
    """A group in which what begins with no command is that of `default`."""

    class Group(TyperGroup):
        """A group with a command that need not be named."""

        DEFAULT: ClassVar = default

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """The arguments, with the command's name before those that do not begin with one."""
            helps = self.get_help_option_names(ctx)
            if args and args[0] not in self.commands and args[0] not in helps:
                args = [default, *args]
            return super().parse_args(ctx, args)

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            """The commands, and what the one that need not be named begins with."""
            found: list[Any] = super().shell_complete(ctx, incomplete)
            command: Any = self.commands[default]
            inner = command.make_context(default, [], parent=ctx, resilient_parsing=True)
            first = next(each for each in command.params if each.param_type_name == "argument")
            return [*found, *first.shell_complete(inner, incomplete)]

    return Group


def _refuse_order(group: str, default: str, commands: list[str], args: list[str]) -> None:
    from fairway_core.findings import UserError

    name = next((each for each in args if each in commands), "")
    rest = list(args)
    if name:
        rest.remove(name)
    hint = f"type: {group} {name or default} {shlex.join(rest)}"
    message = f"`{group}` has no option `{args[0]}`: its commands have"
    raise UserError.of("unknown-option", message, hint)


def _refuse(group: str, default: str, commands: list[str], args: list[str]) -> None:
    from fairway_core.findings import UserError
    from fairway_core.suggestions import nearest

    near = nearest(args[0], commands)
    hint = f"did you mean `{near}`?" if near else f"type: {group} {default} {shlex.join(args)}"
    raise UserError.of("unknown-command", f"there is no command `{group} {args[0]}`", hint)
