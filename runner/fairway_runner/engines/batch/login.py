"""A shell on a node of a pool, through its remote login settings.

The user exists for as long as the connection may last, with a key that is made for it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.batch import keys, pools
from fairway_runner.engines.batch.calls import ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.engines.batch.client import Account

_LIFE = timedelta(hours=12)


def shell(account: Account, node: str | None, command: Sequence[str], *, forward: str) -> int:
    """Opens it, or runs the command there; returns the exit code. UserError where there is no
    such node, or the pool lets nobody in."""
    name = node or _any_node(account)
    host, port = _address(account, name)
    user = f"fairway-{os.urandom(4).hex()}"
    with tempfile.TemporaryDirectory(prefix="fairway-login-") as folder:
        private, public = keys.new_key(user)
        key = Path(folder, "key")
        key.touch(mode=0o600)
        key.write_bytes(private)
        _create_user(account, name, user, public)
        try:
            return subprocess.run(
                _words(key, user, host, port, command, forward), check=False
            ).returncode
        finally:
            _delete_user(account, name, user)


def _words(
    key: Path, user: str, host: str, port: int, command: Sequence[str], forward: str
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
    message = f"the pool `{account.pool}` has no node now"
    hint = f"let it have one: fairway pool resize {account.target.name} 1"
    raise UserError.of("no-node", message, hint)


def _address(account: Account, node: str) -> tuple[str, int]:
    client = account.client
    try:
        settings: Any = account.calls.call(
            f"the way to {node}", lambda: client.get_node_remote_login_settings(account.pool, node)
        )
    except ServiceError as error:
        if error.is_missing:
            hint = f"its nodes: fairway nodes list {account.target.name}"
            raise UserError.of("unknown-node", f"the pool has no node `{node}`", hint) from None
        raise
    return str(settings["remoteLoginIPAddress"]), int(settings["remoteLoginPort"])


def _create_user(account: Account, node: str, user: str, public: str) -> None:
    options: Any = {
        "name": user,
        "sshPublicKey": public,
        "isAdmin": True,
        "expiryTime": (datetime.now(UTC) + _LIFE).isoformat().replace("+00:00", "Z"),
    }
    account.calls.call(
        f"a user on {node}", lambda: account.client.create_node_user(account.pool, node, options)
    )


def _delete_user(account: Account, node: str, user: str) -> None:
    try:
        account.calls.call(
            f"the end of a user on {node}",
            lambda: account.client.delete_node_user(account.pool, node, user),
        )
    except ServiceError as error:
        if not error.is_missing:
            raise
