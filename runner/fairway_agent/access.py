"""Secrets, registry logins and staged blobs, all fetched with the node's own Azure identity.

Accounts that get no token for vaults ask `fairway_boot/slurm/people.py` on the node instead. Source
of the registry's token exchange: Azure/acr, docs/AAD-OAuth.md (POST /oauth2/exchange).
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import urllib.parse
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from fairway_agent import job_facts
from fairway_agent.outputs import draft_of
from fairway_agent.records import Fields, InvalidRecord
from fairway_boot import files
from fairway_boot import http as azure
from fairway_boot.files import AgentError
from fairway_boot.http import Failure, send
from fairway_boot.identity import KeyVault, bearer, own_bearer, reading
from fairway_boot.imds import PEOPLE_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from xml.etree.ElementTree import Element

    from fairway_agent.spec import Staged

T = TypeVar("T")
_MANAGEMENT = "https://management.azure.com/"
# User name for logging in to a registry with a token.
_NOBODY = "00000000-0000-0000-0000-000000000000"
_ROLE = "check that the nodes' identity has the role AcrPull there"


def log_in(runtime: str, program: str, image: str, folder: str) -> dict[str, str]:
    """Logs in to the image's Azure registry, with credentials in the folder, and returns the
    variables that let the runtime pull it; none for another one. Raises AgentError if it is
    refused."""
    server = image.partition("/")[0]
    if not server.endswith(".azurecr.io"):
        return {}
    own = bearer(_MANAGEMENT)["Authorization"].partition(" ")[2]
    try:
        token = exchange_token(f"https://{server}", server, own)
    except Failure as error:
        raise AgentError(
            "no-access", f"{server} does not let this node in: {error}", _ROLE
        ) from None
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
    environment = {**os.environ, **found}
    done = subprocess.run(words, env=environment, input=token.encode(), capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise AgentError("no-access", f"{server} does not let this node in: {said[-1]}", _ROLE)
    return found


def exchange_token(address: str, server: str, token: str) -> str:
    """Exchanges an identity's token for the registry's own. Raises Failure if it returns none."""
    form = {"grant_type": "access_token", "service": server, "access_token": token}
    body = send("POST", f"{address}/oauth2/exchange", form=form).body
    found = body.get("refresh_token") if isinstance(body, dict) else None
    if not isinstance(found, str):
        raise Failure(0, "BadAnswer", "the answer holds no token")
    return found


_SERVICE = Path("/run/fairway-secrets/socket")
_PATIENCE = 180.0  # seconds; the service retries temporary failures
_LONGEST = 1 << 18  # bytes; a secret has at most 25,600, each of which JSON may write as six


def secrets_of(run: Path) -> dict[str, str]:
    """Returns the secrets of the run in a folder; see `secret_values`."""
    return secret_values(job_facts.of_job(run).secrets, job_facts.of_target(run).vault_url)


def secret_values(
    sources: Mapping[str, str], address: str, bearer: Callable[[str], dict[str, str]] = own_bearer
) -> dict[str, str]:
    """Returns the secrets by variable. Raises AgentError, without a value, if one cannot be
    read."""
    # People's accounts read secrets through a service.
    has_service = os.getuid() >= PEOPLE_FROM and _SERVICE.is_socket()
    read = _ask_service if has_service else KeyVault(address, bearer).read
    found = {}
    for variable, source in sources.items():
        name = source.removeprefix("keyvault:")
        with reading(f"the secret {name} in {address.rstrip('/')}"):
            found[variable] = read(name)
    return found


def _ask_service(name: str) -> str:
    """Returns a secret's value. Raises Failure if this account may not read it."""
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
    except (OSError, ValueError, InvalidRecord) as error:
        raise Failure(0, "NoAnswer", str(error)) from None


_RESOURCE = "https://storage.azure.com/"
_VERSION = "2021-12-02"  # of the storage API
_THREADS = 16
_TRIES = 4
_CHUNK = 1 << 20
_INDEX = ".fairway.json"  # records the version of each file in the folder


@dataclass(frozen=True)
class Blob:
    """A blob: its name, path below the folder, size in bytes, ETag, and MD5 if known."""

    name: str
    path: str
    size: int
    etag: str
    md5: str


def stage(entry: Staged, folder: Path) -> int:
    """Downloads an entry's blobs into the folder and returns how many were copied. Raises
    AgentError if there are none, or one cannot be."""
    from concurrent.futures import ThreadPoolExecutor

    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    with files.hold_lock(folder.with_name(f".{folder.name}.lock")):
        blobs = list(_list(entry))
        if not blobs:
            message = f"there is nothing at {entry.container}:{entry.path} to be staged"
            hint = "is its name right? list the container: fairway data ls TARGET:CONTAINER"
            raise AgentError("no-input", message, hint, 2)
        blobs = without_folders(blobs)
        index = files.read_json(folder / _INDEX)
        for path in set(index) - {blob.path for blob in blobs}:
            (folder / path).unlink(missing_ok=True)
        missing = [
            b for b in blobs if index.get(b.path) != b.etag or not (folder / b.path).is_file()
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda blob: _copy(entry, blob, folder), missing))
        files.write_json(folder / _INDEX, {blob.path: blob.etag for blob in blobs})
    return len(missing)


def without_folders(blobs: list[Blob]) -> list[Blob]:
    """Returns the blobs without the empty ones that have others below them: blobfuse2 makes them of
    folders. Raises AgentError for one whose path is a folder of another and that is not empty."""
    folders = {str(folder) for b in blobs for folder in PurePosixPath(b.name).parents}
    inside = {str(folder): b.name for b in blobs for folder in PurePosixPath(b.path).parents}
    for blob in blobs:
        if blob.size and blob.path in inside:
            both = f"{blob.name} and {inside[blob.path]}"
            raise AgentError("bad-input", f"the blobs {both} cannot both be files here", _RENAME, 2)
    return [blob for blob in blobs if blob.size or blob.name not in folders]


_RENAME = "rename it in storage, or stage another path"


def _list(entry: Staged) -> Iterator[Blob]:
    """Yields the blobs at a path: a single blob, or all those in the folder of that name."""
    path, marker = entry.path, ""
    while True:
        query = {"restype": "container", "comp": "list", "prefix": path, "marker": marker}
        url = f"{entry.account}/{entry.container}?{urllib.parse.urlencode(query)}"
        what = f"the container {entry.container}"
        tree = _retried(f"{what} cannot be listed", partial(_page, url, what))
        for element in tree.iter("Blob"):
            name = element.findtext("Name", "")
            if (relative := path_below(name, path)) is not None:
                keys = ("Content-Length", "Etag", "Content-MD5")
                size, etag, md5 = (element.findtext(f"Properties/{key}") or "" for key in keys)
                yield Blob(name, relative, int(size or 0), etag, md5)
        marker = tree.findtext("NextMarker") or ""
        if not marker:
            return


def _page(url: str, what: str) -> Element:
    from xml.etree import ElementTree  # reading secrets needs none

    with reading(what), azure.stream(url, _headers()) as answer:
        return ElementTree.fromstring(answer.read())  # noqa: S314 - the storage's own


def _retried(message: str, act: Callable[[], T]) -> T:
    """Returns the result of a function, which is called again if a connection breaks. Raises a
    AgentError with the message if it always does."""
    why = ""
    for _ in range(_TRIES):
        try:
            return act()
        except (OSError, http.client.HTTPException, SyntaxError) as error:  # it is XML's own error
            why = str(error) or type(error).__name__
    raise AgentError("no-input", f"{message}: {why}", "once that is fixed: fairway retry RUN")


def path_below(name: str, path: str) -> str | None:
    """Returns a blob's path relative to the staged `path`, or None for a blob outside of it and for
    a folder marker. Raises AgentError for a name that no file can have."""
    base = path.rstrip("/")
    if name == base and not path.endswith("/"):
        return name.rpartition("/")[2]
    if base and not name.startswith(f"{base}/"):
        return None
    relative = name[len(base) :].lstrip("/")
    if not relative or relative.endswith("/"):
        return None
    if ".." in relative.split("/"):
        raise AgentError("bad-input", f"the blob {name} cannot be a file here", _RENAME, 2)
    return relative


def _headers() -> dict[str, str]:
    return {**bearer(_RESOURCE), "x-ms-version": _VERSION}


def _copy(entry: Staged, blob: Blob, folder: Path) -> None:
    target = folder / blob.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        shutil.rmtree(target)  # left by an earlier version of the blobs
    part = draft_of(target, ".part")
    part.unlink(missing_ok=True)
    url = f"{entry.account}/{entry.container}/{urllib.parse.quote(blob.name)}"
    try:
        _retried(f"the blob {blob.name} cannot be copied", partial(_go_on, url, blob, part))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _go_on(url: str, blob: Blob, part: Path) -> None:
    """Downloads the missing part of a file. Raises OSError if the result is wrong."""
    have = part.stat().st_size if part.exists() else 0
    # If-Match: no other version than the listed one.
    headers = {**_headers(), "If-Match": f'"{blob.etag.strip(chr(34))}"'}
    if have:
        headers["Range"] = f"bytes={have}-"
    if have < blob.size or not have:
        with reading(f"the blob {blob.name}"), azure.stream(url, headers) as answer:
            mode = "ab" if answer.status == http.client.PARTIAL_CONTENT else "wb"
            with part.open(mode) as file:
                shutil.copyfileobj(answer, file, _CHUNK)
    if part.stat().st_size != blob.size:
        raise OSError(f"{part.stat().st_size} of {blob.size} bytes came")
    if blob.md5:
        digest = hashlib.md5(usedforsecurity=False)
        with part.open("rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
        if base64.b64encode(digest.digest()).decode("ascii") != blob.md5:
            part.unlink()
            raise OSError("its MD5 is not what the storage says")
