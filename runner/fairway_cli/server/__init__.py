"""Commands that a `fairway serve` elsewhere answers, by its REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from fairway_cli.server.store import RemoteStore
    from fairway_runner.runs.store import RunStore

COMMANDS = ("list", "show", "logs", "fetch", "submit", "wait", "cancel")
"""The commands that work with `--server`."""


class _Chosen:
    """The server of the command that runs; a program has one command line."""

    url: str | None = None
    store: RemoteStore | None = None


def choose(url: str, name: str | None, context: Any, *, is_typed: bool) -> None:
    """Lets the server at `url` answer the command of that name. UserError for one that no server
    answers, where `--server` was typed: with FAIRWAY_SERVER, others are those of this machine."""
    if name in COMMANDS:
        _Chosen.url = url
        context.call_on_close(_end)
    elif is_typed and name is not None:
        message = f"`fairway {name}` does not work with --server"
        hint = f"leave --server out; these work with it: {', '.join(COMMANDS)}"
        raise UserError.of("no-server-command", message, hint)


def remote_store() -> RemoteStore | None:
    """The runs of the server that was chosen; None where commands are about this machine's."""
    if _Chosen.url is not None and _Chosen.store is None:
        from fairway_cli.server.store import RemoteStore

        _Chosen.store = RemoteStore.at(_Chosen.url)
    return _Chosen.store


def run_store() -> RunStore:
    """The runs that a command is about: those of the server, or of the project that we are in."""
    if (remote := remote_store()) is not None:
        return remote
    from fairway_runner.runs.store import RunStore

    return RunStore.here()


def _end() -> None:
    if _Chosen.store is not None:
        _Chosen.store.close()
    _Chosen.url = _Chosen.store = None
