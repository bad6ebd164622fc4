"""SSH public keys that may log in: given as keys, as files, or the user's own."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Annotated

from fairway_core.documents import Check, FieldError
from fairway_core.findings import UserError
from fairway_core.project_folder import from_home

if TYPE_CHECKING:
    from pathlib import Path

NOBODYS_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu nobody"
)
"""The key of examples and of new projects: nobody has its private half."""

# Azure accepts no others; the user's own keys are searched in this order.
_OWN_KEYS = ("id_ed25519.pub", "id_rsa.pub")
_TYPES = ("ssh-ed25519", "ssh-rsa")
_KEY = re.compile(r"(?P<type>\S+)\s+(?P<body>[A-Za-z0-9+/]+=*)(\s+.*)?")
_ARMOUR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_LOOKS_LIKE_A_KEY = ("ssh-", "ecdsa-", "sk-")


def read_public_keys(entry: str, *, folder: Path) -> tuple[str, ...]:
    """Returns the keys of an entry: itself, or each line of the file that it names from `folder`.
    Raises UserError for a missing file, or for anything but keys that Azure accepts."""
    if entry.startswith(_LOOKS_LIKE_A_KEY):
        return (_checked(entry, "the key"),)
    if "PRIVATE KEY" in entry:
        hint = "remove it from the file, make a new pair, and name the public key's file:\n"
        raise UserError.of("private-key", "this is a private key", hint + _how_to_make(""))
    try:
        text = _text_of(folder / from_home(entry), "utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError.of(
            "no-ssh-key", f"`{entry}`: no such public key", _how_to_make(entry)
        ) from None
    if "PRIVATE KEY" in text:
        raise UserError.of(
            "private-key", f"`{entry}` is a private key", f"name the public one: {entry}.pub"
        )
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(_checked(line, f"`{entry}`") for line in lines if line and line[0] != "#")
    if not keys:
        raise UserError.of("no-ssh-key", f"`{entry}` holds no public key", _how_to_make(entry))
    return keys


def read_repository_key(entry: str, *, folder: Path) -> str:
    """Returns the public key of an apt repository: the entry itself, or the file that it names,
    relative to `folder`. Raises UserError for anything but an armoured public key."""
    if entry.startswith(_ARMOUR):
        return entry.strip()
    how = f"write it with `gpg --export --armor KEY >{entry}`"
    try:
        text = _text_of(folder / from_home(entry), "ascii").strip()
    except OSError:
        raise UserError.of("no-repository-key", f"`{entry}`: no such file", how) from None
    except UnicodeDecodeError:
        text = ""
    if "PRIVATE KEY" in text:
        hint = f"name the public one: {how.removeprefix('write it with ')}"
        raise UserError.of("private-key", f"`{entry}` is a private key", hint)
    if not text.startswith(_ARMOUR):
        raise UserError.of("no-repository-key", f"`{entry}` is no armoured public key", how)
    return text


def _public_key(text: str) -> None:
    if "PRIVATE KEY" in text:
        raise FieldError("this is a private key", _how_to_make(""), secret=True)
    _checked(text, f"`{text}`")


SshKey = Annotated[str, Check(_public_key)]


def _text_of(file: Path, encoding: str) -> str:
    """Reads a regular file; raises FileNotFoundError for a device or a pipe, which may not end."""
    if not file.is_file():
        raise FileNotFoundError(file)
    return file.read_text(encoding=encoding)


def own_public_keys(home: Path) -> tuple[str, ...]:
    """Returns the user's own key. Raises UserError with the command to make one without any."""
    for name in _OWN_KEYS:
        path = home / ".ssh" / name
        if path.is_file():
            return read_public_keys(str(path), folder=home)
    raise UserError.of(
        "no-ssh-key",
        "no SSH public key: neither `access.ssh_keys` nor one of your own in ~/.ssh",
        "ssh-keygen -t ed25519",
    )


def _how_to_make(entry: str) -> str:
    return "ssh-keygen -t ed25519" + (f" -f {entry.removesuffix('.pub')}" if entry else "")


def _checked(key: str, where: str) -> str:
    match = _KEY.fullmatch(key)
    try:
        body = base64.b64decode(match["body"], validate=True) if match else b""
    except binascii.Error:
        body = b""
    if match is None or not body.startswith(
        len(match["type"]).to_bytes(4) + match["type"].encode()
    ):
        raise UserError.of(
            "bad-ssh-key", f"{where} is not an OpenSSH public key", "ssh-keygen -t ed25519"
        )
    if match["type"] not in _TYPES:
        raise UserError.of(
            "bad-ssh-key",
            f"{where} is of type {match['type']}, which Azure does not accept",
            f"use one of {', '.join(_TYPES)}: ssh-keygen -t ed25519",
        )
    return key
