"""A job's secrets from the environment's Key Vault, by this node's identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.azure.identity import METADATA, reading
from fairway_agent.azure.keyvault import KeyVault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_agent.azure.imds import Metadata


def secrets_of(run: Path) -> dict[str, str]:
    """The values of the secrets of the run in a folder; see `values`."""
    sources = record.read_json(run / "job.json").get("secrets", {})
    address = str(record.read_json(run / "target.json").get("vault_url", ""))
    return values(sources, address)


def values(
    sources: Mapping[str, str], address: str, metadata: Metadata = METADATA
) -> dict[str, str]:
    """The value of each secret by its variable; Fault, without any value, where one cannot be
    read."""
    vault = KeyVault(address, metadata)
    found = {}
    for variable, source in sources.items():
        name = source.removeprefix("keyvault:")
        with reading(f"the secret {name} in {address.rstrip('/')}"):
            found[variable] = vault.read(name)
    return found
