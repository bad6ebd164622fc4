"""Secrets of a Key Vault, by the identity of who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from fairway_boot.http import Failure, send

_API = "7.4"
_RESOURCE = "https://vault.azure.net"


@dataclass(frozen=True)
class Secret:
    """The value of a secret, and its tags."""

    value: str
    tags: dict[str, str]


class Identity(Protocol):
    """By which it is read."""

    def bearer(self, resource: str) -> dict[str, str]:
        """The header that opens a resource."""


@dataclass(frozen=True)
class KeyVault:
    """A vault by its address; `authority` is a file of certificates to trust."""

    address: str
    metadata: Identity
    authority: str = ""

    def read(self, name: str) -> str:
        """The value of a secret; Failure where the vault gives none."""
        return self.look(name).value

    def look(self, name: str) -> Secret:
        """A secret with its tags; Failure where the vault gives none."""
        bearer = self.metadata.bearer(_RESOURCE)
        answer = send("GET", self._url(name), headers=bearer, authority=self.authority)
        try:
            tags = answer.body.get("tags") or {}
            return Secret(str(answer.body["value"]), {key: str(tags[key]) for key in tags})
        except (AttributeError, KeyError, TypeError):
            raise Failure(0, "BadAnswer", f"the vault has no value for {name}") from None

    def write(self, name: str, value: str, kind: str) -> None:
        """Puts a secret there; `kind` says what it is."""
        bearer = self.metadata.bearer(_RESOURCE)
        body = {"value": value, "contentType": kind}
        send("PUT", self._url(name), headers=bearer, body=body, authority=self.authority)

    def _url(self, name: str) -> str:
        return f"{self.address.rstrip('/')}/secrets/{quote(name)}?api-version={_API}"
