"""Address of the server to ask, and the token for it, which is never on a command line."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fairway_core.findings import UserError
from fairway_core.project_folder import find_project

TOKEN = "FAIRWAY_SERVER_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "FAIRWAY_SERVER_TOKEN_FILE"  # noqa: S105 - as above
_HTTPS, _HTTP = 443, 80
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_PATH = re.compile(r"[\x21-\x7e]*")
_FITS = re.compile(r"[\x21-\x7e]+")  # what a header can have


@dataclass(frozen=True)
class Address:
    """Where a server answers; `path` stands before those of its calls."""

    host: str
    port: int
    is_encrypted: bool
    path: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """The address of a URL; UserError for another text, and where others could read calls."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
        is_address = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path)
        if not is_address or not is_plain or parts.scheme not in ("http", "https"):
            message = f"`--server {_shown(url)}` is not the URL of a server"
            raise UserError.of("bad-value", message, "write https://HOST, or http://127.0.0.1:PORT")
        is_encrypted = parts.scheme == "https"
        if not is_encrypted and not is_loopback(host):
            message = f"http://{host} would send the token unencrypted"
            hint = "write https://, or forward a port: ssh -L 8765:/PATH/TO/page.sock HOST"
            raise UserError.of("no-encryption", message, hint)
        usual = _HTTPS if is_encrypted else _HTTP
        return cls(host, port or usual, is_encrypted, parts.path.rstrip("/"))

    @property
    def url(self) -> str:
        """As text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_encrypted else ''}://{host}:{self.port}{self.path}"


def is_loopback(host: str) -> bool:
    """True where everything that is sent there stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_for(address: Address) -> str:
    """From FAIRWAY_SERVER_TOKEN, from the file that FAIRWAY_SERVER_TOKEN_FILE names, or from
    `.fairway/serve.json` of the project that we are in, where its server is the one; UserError
    where there is none."""
    if token := os.environ.get(TOKEN, "").strip():
        return _fitting(token, TOKEN)
    if name := os.environ.get(TOKEN_FILE):
        try:
            return _fitting(Path(name).read_text("utf-8").strip(), name)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UserError.of("no-token", f"{name}: {why}", f"{TOKEN_FILE} names it") from None
    if is_loopback(address.host) and (token := _recorded(address)):
        return _fitting(token, "serve.json")
    message = f"there is no token for {address.url}"
    hint = f"set {TOKEN}, or {TOKEN_FILE} to a file that has it"
    raise UserError.of("no-token", message, hint)


def _recorded(address: Address) -> str:
    """The token that a server of this project has written down; "" where none has."""
    try:
        found = json.loads((find_project()[0] / ".fairway" / "serve.json").read_text("ascii"))
        known = Address.of(found["url"])
        # That of a socket has no port: which ones lead there, only who forwards them knows.
        has_port = urlsplit(found["url"]).port is not None
        is_it = has_port and is_loopback(known.host) and known.port == address.port
        return str(found["token"]) if is_it else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UserError):
        return ""


def _fitting(token: str, where: str) -> str:
    if _FITS.fullmatch(token):
        return token
    message = f"{where} has no token: one line of letters and digits"
    raise UserError.of("no-token", message, "copy `token` of .fairway/serve.json on the server")


def _shown(url: str) -> str:
    """The URL without what may be a secret in it."""
    return url[:80] if "@" not in url and "?" not in url else "…"
