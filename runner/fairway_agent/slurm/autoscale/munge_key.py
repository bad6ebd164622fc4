"""The cluster's munge key, which its own vault keeps: all read it by their VM's identity.

Started as a program, on the scheduler, it makes the key once in the cluster's life. A scheduler
that takes the place of another gets the same. With `--read`, on a login node, it makes none.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.azure.http import Failure
from fairway_agent.azure.keyvault import KeyVault
from fairway_agent.slurm.autoscale.settings import begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.azure.imds import Metadata
    from fairway_agent.slurm.autoscale.settings import Settings

_BYTES = 128
_MISSING = 404
_SHORTEST, _LONGEST = 32, 1024
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Answers with 0, or with 1 where the vault cannot be reached or has no key to read: to be
    tried again."""
    settings, metadata = begin()
    try:
        key = read_key(settings, metadata)
        if key is None and "--read" in arguments:
            _log.info("the scheduler has put no key into the vault yet")
            return 1
        if key is None:
            key = secrets.token_bytes(_BYTES)
            put_key(settings, metadata, key)
            _log.info("a new munge key is in the vault")
    except Failure as failure:
        _log.error("%s", failure)
        return 1
    if install_key(settings, key):
        subprocess.run(settings.restart_munge, check=True)
    return 0


def read_key(settings: Settings, metadata: Metadata) -> bytes | None:
    """The key; None while nobody has put one there. Failure where the vault gives none."""
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


def put_key(settings: Settings, metadata: Metadata, key: bytes) -> None:
    """Puts the key into the vault."""
    text = base64.b64encode(key).decode()
    _vault(settings, metadata).write(settings.secret, text, "munge key, base64")


def install_key(settings: Settings, key: bytes) -> bool:
    """Writes the key for munged, which alone may read it; whether it was another before."""
    file = Path(settings.munge_key)
    if file.exists() and file.read_bytes() == key:
        return False
    owner = file.parent.stat()
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "wb") as out:
        out.write(key)
    os.chown(draft, owner.st_uid, owner.st_gid)
    draft.replace(file)
    return True


def _vault(settings: Settings, metadata: Metadata) -> KeyVault:
    return KeyVault(settings.vault, metadata, settings.authority)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
