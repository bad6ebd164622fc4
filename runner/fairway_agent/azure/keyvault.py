"""A job's secrets from the environment's Key Vault, by this node's identity.

Standard library only.
"""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.azure import identity

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = "7.4"  # of the vault's interface


def secrets_of(run: Path) -> dict[str, str]:
    """The values of a run's secrets by their variables; Fault where one cannot be read."""
    sources = record.read_json(run / "job.json").get("secrets", {})
    vault = str(record.read_json(run / "target.json").get("vault_url", "")).rstrip("/")
    return {
        variable: _secret(vault, source.removeprefix("keyvault:"))
        for variable, source in sources.items()
    }


def _secret(vault: str, name: str) -> str:
    url = f"{vault}/secrets/{urllib.parse.quote(name)}?api-version={_VERSION}"
    headers = {"Authorization": f"Bearer {identity.token(identity.VAULT)}"}
    with identity.get(url, headers, f"the secret {name} in {vault}") as answer:
        return str(json.load(answer)["value"])
