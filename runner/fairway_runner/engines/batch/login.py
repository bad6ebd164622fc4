"""A shell on a node of a pool, as a user who is there for the connection alone.

A program that is killed cannot remove the user, who then expires within the hour.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import pools
from fairway_runner.engines.engine import new_key
from fairway_runner.engines.remote import bastion
from fairway_runner.engines.remote.connection import ended_as_by_ctrl_c, on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.engines.batch.client import Account


_LIFE = timedelta(hours=1)
_RENEWAL = 20 * 60.0  # seconds
_SSH_PORT = 22


def shell(account: Account, node: str | None, command: Sequence[str], *, forward: str) -> int:
    """Opens it, or runs the command there; UserError for no such node, or a pool without access."""
    name = node or _any_node(account)
    host, port, way = _address(account, name)
    user = f"fairway-{os.urandom(4).hex()}"
    private, public = new_key(user)
    with ended_as_by_ctrl_c(), tempfile.TemporaryDirectory(prefix="fairway-login-") as folder:
        key = Path(folder, "key")
        key.touch(mode=0o600)
        key.write_bytes(private)
        options: Any = {"name": user, "isAdmin": True, **_access(public)}
        with ExitStack() as ends:
            ends.callback(_delete_user, account, name, user)
            try:
                account.calls.call(
                    f"a user on {name}",
                    lambda: account.client.create_node_user(account.pool, name, options),
                )
            except ServiceError:
                ends.pop_all()  # there is none, or it expires: what was refused is to be said
                raise
            with _renewed(account, name, user, public):
                words = _words(key, user, host, port, command, forward, way)
                return on_terminal(words)


@contextmanager
def _renewed(account: Account, node: str, user: str, public: str) -> Iterator[None]:
    """Keeps the user from expiring while the connection lasts."""
    done = threading.Event()

    def again() -> None:
        options: Any = _access(public)
        account.client.replace_node_user(account.pool, node, user, options)

    def renew() -> None:
        while not done.wait(_RENEWAL):
            # One that fails is made good by the next: a life has three of them.
            with suppress(UserError):
                account.calls.call(f"a user on {node}", again)

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _words(
    key: Path,
    user: str,
    host: str,
    port: int,
    command: Sequence[str],
    forward: str,
    way: dict[str, str],
) -> list[str]:
    options = {
        "IdentityFile": str(key),
        "IdentitiesOnly": "yes",
        # Nodes come and go with their host keys; the way to them is the account's own answer.
        "StrictHostKeyChecking": "accept-new",
        "UserKnownHostsFile": str(key.with_name("known_hosts")),
        "LogLevel": "ERROR",
        "ConnectTimeout": "20",
        "ServerAliveInterval": "30",
        **way,
    }
    words = ["ssh", *(word for each in options.items() for word in ("-o", "=".join(each)))]
    words += ["-p", str(port), "-l", user]
    if forward:
        words += ["-N", "-o", "ExitOnForwardFailure=yes", "-L", forward]
    elif not command:
        words.append("-t")
    return [*words, "--", host, *([shlex.join(command)] if command else [])]


def _any_node(account: Account) -> str:
    for node in account.nodes():
        if str(node["state"]).lower() in pools.USABLE:
            return str(node["id"])
    message = f"the pool `{account.pool}` has no nodes now"
    hint = f"start one: fairway pool resize {account.target.name} 1"
    raise UserError.of("no-node", message, hint)


def _address(account: Account, node: str) -> tuple[str, int, dict[str, str]]:
    """Host and port of the node's ssh server, and ssh's settings for the way there."""
    client = account.client
    try:
        facts = account.calls.call(f"the node {node}", lambda: client.get_node(account.pool, node))
    except ServiceError as error:
        if error.is_missing:
            raise pools.unknown_node(account, node) from None
        raise
    try:
        settings: Any = account.calls.call(
            f"the way to {node}", lambda: client.get_node_remote_login_settings(account.pool, node)
        )
        mapped, port = settings.get("remoteLoginIPAddress"), settings.get("remoteLoginPort")
    except ServiceError as error:
        if error.status not in (400, 404, 409):
            raise
        mapped, port = None, None
    if mapped and port:
        return str(mapped), int(port), {}
    host = str(facts.get("ipAddress") or "")
    if not host:
        message = f"the node `{node}` has no address now; it is {str(facts['state']).lower()}"
        raise UserError.of("no-node", message, f"see: fairway nodes list {account.target.name}")
    bastion.require_tools(account.target.reach)
    return host, _SSH_PORT, bastion.settings(account.target.reach, host)


def _access(public: str) -> dict[str, str]:
    """The key of a user, and when it expires."""
    expiry = (datetime.now(UTC) + _LIFE).isoformat().replace("+00:00", "Z")
    return {"sshPublicKey": public, "expiryTime": expiry}


def _delete_user(account: Account, node: str, user: str) -> None:
    try:
        account.calls.call(
            f"the end of a user on {node}",
            lambda: account.client.delete_node_user(account.pool, node, user),
        )
    except ServiceError as error:
        if not error.is_missing:
            raise
