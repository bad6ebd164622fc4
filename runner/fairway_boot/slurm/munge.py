"""The cluster's munge key, stored in its own vault, and messages that only holders of the key can
write and read.

All read the key with their VM's identity. Started as a program, on the scheduler, this creates it
once in the cluster's life; a scheduler that replaces another gets that one's key. With `--read`, on
all other machines, it creates none. With `--new` it stores another in the vault, which this machine
too has only once it reads it.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_boot.files import write_secret
from fairway_boot.http import Failure
from fairway_boot.identity import KeyVault
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_boot.imds import Metadata
    from fairway_boot.slurm.settings import Settings

_TIMEOUT = 20.0
_UID = re.compile(rb"^UID:\s+.*\((\d+)\)\s*$", re.MULTILINE)
_BYTES = 128
_MISSING = 404
_SHORTEST, _LONGEST = 32, 1024
_log = logging.getLogger(__name__)


class UntrustedMessage(Exception):
    """Error for a message that was not written with the key, came too late, or came twice."""


def encode(settings: Settings, message: dict[str, Any]) -> str:
    """Returns the message signed by munge for this process's user; it is valid for five minutes."""
    return _run(settings, "munge", json.dumps(message).encode()).decode().strip()


def decode(settings: Settings, credential: str) -> tuple[dict[str, Any], int]:
    """Returns the message and its author's user id. Raises UntrustedMessage if it cannot be
    trusted."""
    head, _, payload = _run(settings, "unmunge", credential.encode()).partition(b"\n\n")
    uid = _UID.search(head)
    try:
        message = json.loads(payload)
    except ValueError:
        message = None
    if uid is None or not isinstance(message, dict):
        raise UntrustedMessage("not a message of ours")
    return message, int(uid[1])


def _run(settings: Settings, program: str, text: bytes) -> bytes:
    words = [f"{settings.bin}/{program}" if settings.bin else program]
    if settings.munge_socket:
        words.append(f"--socket={settings.munge_socket}")
    try:
        done = subprocess.run(words, input=text, capture_output=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UntrustedMessage(f"{program}: {error}") from None
    if done.returncode:
        # unmunge prints its error on the first line of its output, munge on standard error.
        why = (done.stderr or done.stdout.partition(b"\n")[0]).decode(errors="replace")
        raise UntrustedMessage(f"{program}: {' '.join(why.split())}")
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    """Returns 0, or 1 if the vault cannot be reached or has no key to read, to be tried again."""
    settings, metadata = begin()
    try:
        if "--new" in arguments:
            _make_key(settings, metadata)
            return 0
        if "--read" not in arguments and read_key(settings, metadata) is None:
            _make_key(settings, metadata)
    except Failure as failure:
        _log.error("%s", failure)
        return 1
    return 0 if has_key(settings, metadata) else 1


def has_key(settings: Settings, metadata: Metadata) -> bool:
    """Returns True if this machine has the vault's key, and has munged reload a changed one; False
    if the vault has none, or does not give it."""
    try:
        key = read_key(settings, metadata)
    except Failure as failure:
        _log.error("%s", failure)
        return False
    if key is None:
        _log.info("the scheduler has put no key into the vault yet")
        return False
    if write_secret(Path(settings.munge_key), key):  # readable by munged alone
        subprocess.run(settings.restart_munge, check=True)
    return True


def read_key(settings: Settings, metadata: Metadata) -> bytes | None:
    """Returns the key; None if there is none yet. Raises Failure if the vault does not give it."""
    try:
        text = _vault(settings, metadata).read(settings.secret)
    except Failure as failure:
        if failure.status == _MISSING:
            return None
        raise
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise Failure(0, "BadKey", f"the secret {settings.secret} holds no munge key")
    return key


def _make_key(settings: Settings, metadata: Metadata) -> None:
    text = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
    _vault(settings, metadata).write(settings.secret, text, "munge key, base64")
    _log.info("a new munge key is in the vault")


def _vault(settings: Settings, metadata: Metadata) -> KeyVault:
    return KeyVault(settings.vault, metadata.bearer, settings.authority)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
