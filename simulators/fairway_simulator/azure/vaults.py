"""Key Vault's secrets, each vault below `/vaults/NAME`, by role assignments alone.

Source: Azure documentation, "Azure RBAC for Key Vault data plane operations", and the REST API
of secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.errors import refused
from fairway_simulator.azure.identity import audience_of, principal_of

if TYPE_CHECKING:
    from fairway_simulator.azure.resource_ids import ResourcePath
    from fairway_simulator.azure.rights import Rights
    from fairway_simulator.azure.store import ResourceStore

_AUDIENCE = "https://vault.azure.net"
_SECRETS = "Microsoft.KeyVault/vaults/secrets"
READS_SECRET = f"{_SECRETS}/getSecret/action"
_ACTIONS = {"GET": READS_SECRET, "PUT": f"{_SECRETS}/setSecret/action"}


def forbidden(action: str) -> tuple[int, Any]:
    """What a vault says to who has no role for it."""
    status, found = refused(403, "Forbidden", f"Caller is not authorized to perform {action}")
    found["error"]["innererror"] = {"code": "ForbiddenByRbac"}
    return status, found


class Vaults:
    """The secrets of all vaults that were put."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self.secrets: dict[str, str] = {}
        self.tags: dict[str, dict[str, str]] = {}

    def answer(
        self, method: str, path: ResourcePath, body: Any, token: str, rights: Rights | None
    ) -> tuple[int, Any]:
        """The status and the body that a request for a secret gets."""
        if not token or audience_of(token) != _AUDIENCE:
            return refused(401, "Unauthorized", "AKV10022: Invalid audience.")
        _, name, kind, *rest = (*path.parts, "", "")
        action = _ACTIONS.get(method, "")
        known = self._store.of_type("microsoft.keyvault/vaults")
        vault = next((each.text for each in known if each.name.lower() == name.lower()), "")
        if kind != "secrets" or not action or not vault:
            return refused(404, "NotFound", f"Nothing is at {path.text}.")
        if rights and not rights.allow(principal_of(token), action, vault, data=True):
            return forbidden(action)
        if method == "PUT":
            self.secrets[path.key] = body["value"]
            self.tags[path.key] = body.get("tags") or {}
        if path.key not in self.secrets:
            return refused(404, "SecretNotFound", f"A secret with {rest[0]} was not found.")
        secret: dict[str, Any] = {"value": self.secrets[path.key], "id": path.text}
        if tags := self.tags.get(path.key):
            secret["tags"] = tags
        return 200, secret
