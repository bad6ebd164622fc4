"""Messages that only those can write and read who have the cluster's munge key."""

from __future__ import annotations

import json
import pwd
import re
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_agent.slurm.autoscale.settings import Settings

_TIMEOUT = 20.0
_UID = re.compile(rb"^UID:\s+.*\((\d+)\)\s*$", re.MULTILINE)


class Refused(Exception):
    """A message that was not written with the key, came too late, or came twice."""


def encode(settings: Settings, message: dict[str, Any]) -> str:
    """The message, signed by munge with this process's user; it lasts for five minutes."""
    return _run(settings, "munge", json.dumps(message).encode()).decode().strip()


def decode(settings: Settings, credential: str) -> tuple[dict[str, Any], int]:
    """The message and the user id of who wrote it; Refused where it cannot be trusted."""
    head, _, payload = _run(settings, "unmunge", credential.encode()).partition(b"\n\n")
    uid = _UID.search(head)
    try:
        message = json.loads(payload)
    except ValueError:
        message = None
    if uid is None or not isinstance(message, dict):
        raise Refused("not a message of ours")
    return message, int(uid[1])


def trusted_user(settings: Settings) -> int:
    """The user id of the service, from which nodes take their names; root where it has none."""
    try:
        return pwd.getpwnam(settings.user).pw_uid
    except KeyError:
        return 0


def _run(settings: Settings, program: str, text: bytes) -> bytes:
    command = [f"{settings.bin}/{program}" if settings.bin else program]
    if settings.munge_socket:
        command.append(f"--socket={settings.munge_socket}")
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, check=False, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{program}: {error}") from None
    if done.returncode:
        # unmunge says in its first line what is wrong, and munge on standard error.
        why = (done.stderr or done.stdout.partition(b"\n")[0]).decode(errors="replace")
        raise Refused(f"{program}: {' '.join(why.split())}")
    return done.stdout
