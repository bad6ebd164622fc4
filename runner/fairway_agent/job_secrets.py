"""A job's secrets from the environment's Key Vault, by this node's identity.

People whose jobs get no token for vaults ask `fairway_boot/slurm/people.py` on the node.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import job_facts
from fairway_agent.records import Fields, Unfit
from fairway_boot.http import Failure
from fairway_boot.identity import OWN, KeyVault, reading
from fairway_boot.imds import PEOPLE_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_boot.identity import Identity

_SERVICE = Path("/run/fairway-secrets/socket")
_PATIENCE = 180.0  # seconds; it asks again what fails for a moment
_LONGEST = 1 << 18  # bytes; a secret has 25,600 at most, which JSON may write as six each


def secrets_of(run: Path) -> dict[str, str]:
    """The values of the secrets of the run in a folder; see `values`."""
    return values(job_facts.of_job(run).secrets, job_facts.of_target(run).vault_url)


def values(sources: Mapping[str, str], address: str, metadata: Identity = OWN) -> dict[str, str]:
    """The value of each secret by its variable; Fault, without any value, where one cannot be
    read."""
    vault = KeyVault(address, metadata)
    read = _ask_service if _has_service() else vault.read
    found = {}
    for variable, source in sources.items():
        name = source.removeprefix("keyvault:")
        with reading(f"the secret {name} in {address.rstrip('/')}"):
            found[variable] = read(name)
    return found


def _has_service() -> bool:
    """True if a service reads secrets for this account."""
    return os.getuid() >= PEOPLE_FROM and _SERVICE.is_socket()


def _ask_service(name: str) -> str:
    """The value of a secret; Failure where it is not for this account."""
    try:
        with socket.socket(socket.AF_UNIX) as service:
            service.settimeout(_PATIENCE)
            service.connect(str(_SERVICE))
            service.sendall(f"{name}\n".encode())
            with service.makefile("rb") as said:
                answer = Fields(json.loads(said.readline(_LONGEST)), "the answer")
        if (error := answer.text_or_none("error")) is not None:
            raise Failure(403, "Forbidden", error)
        return answer.text("value")
    except (OSError, ValueError, Unfit) as error:
        raise Failure(0, "NoAnswer", str(error)) from None
