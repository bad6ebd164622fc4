"""The munge key in the cluster's own vault, by this VM's managed identity."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .requests import Failure, send

if TYPE_CHECKING:
    from .metadata import Tokens
    from .settings import Settings

_API = "7.4"
_RESOURCE = "https://vault.azure.net"
_MISSING = 404
_SHORTEST, _LONGEST = 32, 1024


def read_key(settings: Settings, tokens: Tokens) -> bytes | None:
    """The key; None while nobody has put one there. Failure where the vault gives none."""
    try:
        answer = send(
            "GET",
            _url(settings),
            headers=tokens.bearer(_RESOURCE),
            authority=settings.authority,
        )
    except Failure as failure:
        if failure.status == _MISSING:
            return None
        raise
    try:
        key = base64.b64decode(answer.body["value"], validate=True)
    except (binascii.Error, KeyError, TypeError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise Failure(0, "BadKey", f"the secret {settings.secret} holds no munge key")
    return key


def put_key(settings: Settings, tokens: Tokens, key: bytes) -> None:
    """Puts the key into the vault."""
    send(
        "PUT",
        _url(settings),
        headers=tokens.bearer(_RESOURCE),
        body={"value": base64.b64encode(key).decode(), "contentType": "munge key, base64"},
        authority=settings.authority,
    )


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


def _url(settings: Settings) -> str:
    return f"{settings.vault.rstrip('/')}/secrets/{settings.secret}?api-version={_API}"
