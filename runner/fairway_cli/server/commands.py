"""Commands with the arguments that they have here, answered by a server."""

from __future__ import annotations

from functools import update_wrapper
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairway_cli.lazy import command_of
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

# Where the function of each is.
_SERVED = {
    "list": "listing",
    "show": "runs",
    "logs": "logs",
    "submit": "submit",
    "wait": "runs",
    "cancel": "runs",
}


def at_server(url: str, name: str | None, here: Any, *, is_typed: bool) -> Any:
    """The command of that name, which the server at `url` answers. UserError for one that none
    does, where `--server` was typed: with FAIRWAY_SERVER, others are those of this machine."""
    if name not in _SERVED:
        if is_typed and name is not None:
            message = f"`fairway {name}` does not work with --server"
            hint = f"leave --server out; these work with it: {', '.join(_SERVED)}"
            raise UserError.of("no-server-command", message, hint)
        return here
    command = import_module(f"fairway_cli.commands.{name}").command
    return command_of(name, _answered(url, name, command))


def _answered(url: str, name: str, command: Callable[..., None]) -> Callable[..., None]:
    def answered(_deadline: str | None = None, **options: Any) -> None:
        from fairway_cli.server.connection import Server

        module = import_module(f"fairway_cli.server.{_SERVED[name]}")
        getattr(module, f"{name}_command")(Server.of(url), **options)

    return update_wrapper(answered, command)


def require_unset(name: str, **options: object) -> None:
    """UserError where an option is given that only this machine's own command has."""
    for option, value in options.items():
        if value:
            message = f"`fairway {name}` has no --{option.replace('_', '-')} with --server"
            raise UserError.of("no-server-option", message, "leave one of the two out")
