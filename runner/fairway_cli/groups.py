"""Groups of commands such as `fairway nodes`, and their earlier spellings."""

from __future__ import annotations

import shlex
from typing import Any

from typer.core import TyperGroup


def group_with_default(default: str) -> type[TyperGroup]:
    """A group in which a word that is no command was once an argument of `default`.

    What was typed is refused with the command line to type now.
    """

    class Group(TyperGroup):
        """A group that knows its earlier spelling."""

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
            """The command that the arguments name; UserError where there is none."""
            if args and not args[0].startswith("-") and args[0] not in self.commands:
                _refuse(f"fairway {ctx.info_name}", default, list(self.commands), args)
            found: tuple[Any, Any, list[str]] = super().resolve_command(ctx, args)
            return found

    return Group


def _refuse(group: str, default: str, commands: list[str], args: list[str]) -> None:
    from fairway_core.findings import UserError
    from fairway_core.suggestions import nearest

    near = nearest(args[0], commands)
    hint = f"did you mean `{near}`?" if near else f"type: {group} {default} {shlex.join(args)}"
    raise UserError.of("unknown-command", f"there is no command `{group} {args[0]}`", hint)
