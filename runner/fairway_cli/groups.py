"""Groups of commands such as `fairway nodes`, their earlier spellings, and their short ones."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from typer.core import TyperGroup


def group_with_default(default: str) -> type[TyperGroup]:
    """A group in which a word that is no command was once an argument of `default`.

    What was typed is refused with the command line to type now.
    """

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
