"""Lets a runtime pull images from an Azure registry by this node's identity. Standard library only.

Source: Azure/acr, docs/AAD-OAuth.md (POST /oauth2/exchange).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from fairway_boot import identity
from fairway_boot.files import Fault
from fairway_boot.http import Failure, send

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
