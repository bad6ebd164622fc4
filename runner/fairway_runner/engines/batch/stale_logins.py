"""Removes users and keys of shells on nodes, where the program that made them was killed.

A process of its own, with this module as its program, reads what there is to be removed and waits
until its input ends. Unless it was told by then that all is gone, it removes that.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fairway_agent.records import JsonRecord

if TYPE_CHECKING:
    from fairway_runner.engines.batch.client import Account


_GONE = b"gone\n"


@dataclass(frozen=True)
class _Order(JsonRecord):
    """What the other process is to remove: the `folder` here, and the `user` of a `node`."""

    CALLED = "the order"

    folder: str
    target: object
    node: str
    user: str
    deadline: float


class TemporaryLogin:
    """A private folder, and a user of a node: both are removed, also where this program is killed.
    The caller removes the user, and then calls `user_is_gone`."""

    def __init__(self, account: Account, node: str, user: str) -> None:
        self._account, self._node, self._user = account, node, user
        self._is_gone = False

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="fairway-login-"))
        # Nothing that a terminal sends reaches it: neither Ctrl-C, nor the end of the terminal.
        self._remover = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        account = self._account
        order = _Order(
            *(str(self.folder), account.target.record(), self._node, self._user),
            deadline=account.calls.deadline,
        )
        self._say(json.dumps(order.to_json()).encode() + b"\n")
        return self

    def user_is_gone(self) -> None:
        """Tells the other process that the user is removed."""
        self._is_gone = True
        self._say(_GONE)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self._remover.stdin is not None
        with suppress(BrokenPipeError):
            self._remover.stdin.close()
        if self._is_gone:
            self._remover.wait()  # otherwise it removes the user, however long that takes

    def _say(self, line: bytes) -> None:
        assert self._remover.stdin is not None
        with suppress(BrokenPipeError):  # the other process was killed
            self._remover.stdin.write(line)
            self._remover.stdin.flush()


def delete_user(account: Account, node: str, user: str) -> None:
    """Deletes a user of a node, if there is one."""
    # Imported here: the process that waits needs nothing of Azure's most of the time.
    from fairway_runner.engines.azure.calls import ServiceError

    try:
        account.calls.call(
            f"the end of a user on {node}",
            lambda: account.client.delete_node_user(account.pool, node, user),
        )
    except ServiceError as error:
        if not error.is_missing:
            raise


def main() -> None:
    """The program."""
    order = _Order.from_json(json.loads(sys.stdin.buffer.readline()))
    if sys.stdin.buffer.read() == _GONE:
        return
    shutil.rmtree(order.folder, ignore_errors=True)
    # Imported here for the same reason.
    from fairway_core.target import Target
    from fairway_runner.engines.batch.client import Account

    account = Account(Target.model_validate(order.target), order.deadline)
    delete_user(account, order.node, order.user)


if __name__ == "__main__":
    main()
