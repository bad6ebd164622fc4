"""Access by this node's identity: a job's secrets, and images of an Azure registry.

People whose jobs get no token for vaults ask `fairway_boot/slurm/people.py` on the node. Source of
the registry's exchange of tokens: Azure/acr, docs/AAD-OAuth.md (POST /oauth2/exchange).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import job_facts
from fairway_agent.records import Fields, Unfit
from fairway_boot import identity
from fairway_boot.files import Fault
from fairway_boot.http import Failure, send
from fairway_boot.identity import KeyVault, own_bearer, reading
from fairway_boot.imds import PEOPLE_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_MANAGEMENT = "https://management.azure.com/"
# The user name that goes with a token of a registry.
_NOBODY = "00000000-0000-0000-0000-000000000000"
_ROLE = "check that the nodes' identity has the role AcrPull there"


def log_in(runtime: str, program: str, image: str, folder: str) -> dict[str, str]:
    """The variables by which the runtime may pull the image; none where it is in no registry of
    Azure's. What it remembers is kept in the folder. Fault where the registry refuses."""
    server = image.partition("/")[0]
    if not server.endswith(".azurecr.io"):
        return {}
    token = _token(server)
    if runtime in ("apptainer", "singularity"):
        prefix = runtime.upper()
        return {f"{prefix}_DOCKER_USERNAME": _NOBODY, f"{prefix}_DOCKER_PASSWORD": token}
    if runtime == "enroot":
        file = Path(folder, ".credentials")
        file.touch(mode=0o600)
        file.write_text(f"machine {server} login {_NOBODY} password {token}\n", encoding="ascii")
        return {"ENROOT_CONFIG_PATH": folder}
    found = {"DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": str(Path(folder, "auth.json"))}
    words = [program, "login", "--username", _NOBODY, "--password-stdin", server]
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in found.items()), *words],
        input=token.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise Fault("no-access", f"{server} does not let this node in: {said[-1]}", _ROLE)
    return found


def _token(server: str) -> str:
    """A token of the registry's for this node's identity."""
    own = identity.bearer(_MANAGEMENT)["Authorization"].partition(" ")[2]
    try:
        return exchanged(f"https://{server}", server, own)
    except Failure as error:
        raise Fault("no-access", f"{server} does not let this node in: {error}", _ROLE) from None


def exchanged(address: str, server: str, token: str) -> str:
    """Exchanges a token of the identity for the registry's own at an address; raises Failure if the
    registry gives none."""
    form = {"grant_type": "access_token", "service": server, "access_token": token}
    body = send("POST", f"{address}/oauth2/exchange", form=form).body
    found = body.get("refresh_token") if isinstance(body, dict) else None
    if not isinstance(found, str):
        raise Failure(0, "BadAnswer", "the answer holds no token")
    return found


_SERVICE = Path("/run/fairway-secrets/socket")
_PATIENCE = 180.0  # seconds; it asks again what fails for a moment
_LONGEST = 1 << 18  # bytes; a secret has 25,600 at most, which JSON may write as six each


def secrets_of(run: Path) -> dict[str, str]:
    """The values of the secrets of the run in a folder; see `secret_values`."""
    return secret_values(job_facts.of_job(run).secrets, job_facts.of_target(run).vault_url)


def secret_values(
    sources: Mapping[str, str],
    address: str,
    bearer: Callable[[str], dict[str, str]] = own_bearer,
) -> dict[str, str]:
    """The value of each secret by its variable; Fault, without any value, where one cannot be
    read."""
    # A service reads secrets for people's accounts.
    has_service = os.getuid() >= PEOPLE_FROM and _SERVICE.is_socket()
    read = _ask_service if has_service else KeyVault(address, bearer).read
    found = {}
    for variable, source in sources.items():
        name = source.removeprefix("keyvault:")
        with reading(f"the secret {name} in {address.rstrip('/')}"):
            found[variable] = read(name)
    return found


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
