"""Transfers of a task: resource files to its folder, and output files to storage."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azure.storage.blob import ContainerClient


@dataclass(frozen=True)
class StorageAccess:
    """The storage account that stands for the one linked to the Batch account.

    A pool's managed identity may read and write it: requests that name an identity are authorized
    with the account's key.
    """

    url: str
    account: str
    key: str

    def owns(self, url: str) -> bool:
        return url.startswith(self.url.rstrip("/") + "/")

    @property
    def connection_string(self) -> str:
        """The value of AZURE_STORAGE_CONNECTION_STRING."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};"
            f"AccountKey={self.key};BlobEndpoint={self.url};"
        )


class TransferError(Exception):
    """Error that a file cannot be downloaded or uploaded; `code` is the service's own."""

    def __init__(self, code: str, message: str, where: str) -> None:
        super().__init__(message)
        self.code = code
        self.where = where


class Blobs:
    """Storage as a node reaches it. `identity` is the resource id of the pool's identity, which may
    read and write the account's storage. Requests must name this identity (see
    BatchNodeIdentityReference of azure-batch: one "associated with the Batch pool")."""

    def __init__(self, access: StorageAccess | None, identity: str) -> None:
        self.access = access
        self._identity = identity

    def download_url(self, url: str, target: Path, *, identity: str) -> None:
        """Downloads one file; `identity` is the one that the request names, "" for none."""
        container, name = self._split(url)
        _download(self.container(container, identity=identity), name, target)

    def download_container(
        self, url: str, prefix: str, *, identity: str
    ) -> Iterator[tuple[str, Any]]:
        """Yields the name of each blob in a container, and a function that downloads it."""
        from azure.core.exceptions import HttpResponseError

        container = self.container(url, identity=identity)
        try:
            names = [blob.name for blob in container.list_blobs(name_starts_with=prefix or None)]
        except HttpResponseError as error:
            code = "ResourceContainerListDiagnosticFailed"
            raise TransferError(code, str(error.message), url) from error
        for name in names:
            yield name, lambda target, name=name: _download(container, name, target)

    def upload(self, source: Path, url: str, name: str, *, identity: str) -> None:
        from azure.core.exceptions import AzureError, HttpResponseError

        container = self.container(url, identity=identity, uploads=True)
        if not source.is_file() or not _is_blob_name(name):
            # Not documented: the service may fail, and so does the simulator.
            raise TransferError("FileUploadMiscError", "the file cannot be uploaded", repr(name))
        try:
            with source.open("rb") as file:
                container.upload_blob(name, file, overwrite=True)
        except HttpResponseError as error:
            codes = {404: "FileUploadContainerNotFound", 403: "FileUploadAccessDenied"}
            code = codes.get(error.status_code or 0, "FileUploadMiscError")
            raise TransferError(code, str(error.message), url) from error
        except AzureError as error:
            raise TransferError("FileUploadMiscError", str(error), url) from error

    def container(self, url: str, *, identity: str, uploads: bool = False) -> ContainerClient:
        """Returns a client for the container at a URL. Raises TransferError without the pool's
        identity: Fairway signs no URL."""
        from azure.storage.blob import ContainerClient

        is_own = identity.lower() == self._identity.lower()
        if self.access is None or not self.access.owns(url) or not is_own:
            code = "FileUploadAccessDenied" if uploads else "BlobAccessDenied"
            why = "has no access to this storage" if is_own else "is not the pool's"
            raise TransferError(code, f"the identity {identity or '(none)'} {why}", url)
        credential = {"account_name": self.access.account, "account_key": self.access.key}
        return ContainerClient.from_container_url(url, credential=credential)

    def _split(self, url: str) -> tuple[str, str]:
        """Splits a blob's URL into its container's URL and its name."""
        if self.access is None or not self.access.owns(url):
            message = "the pool's identity has no access to this storage"
            raise TransferError("BlobAccessDenied", message, url)
        container, _, name = url[len(self.access.url.rstrip("/")) + 1 :].partition("/")
        return f"{self.access.url.rstrip('/')}/{container}", unquote(name)


def _is_blob_name(name: str) -> bool:
    """Returns True if storage accepts a blob of that name: "control characters (0x00 to 0x1F,
    \\u0081, and so on)" and invalid Unicode are not allowed. Source: Azure documentation, Naming
    and referencing containers, blobs, and metadata."""
    return all(unicodedata.category(each) not in ("Cc", "Cs", "Co", "Cn") for each in name)


def _download(container: ContainerClient, name: str, target: Path) -> None:
    from azure.core.exceptions import AzureError, HttpResponseError

    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("wb") as file:
            container.download_blob(name).readinto(file)
    except HttpResponseError as error:
        code = _code(error.status_code or 0)
        raise TransferError(code, str(error.message), f"{container.url}/{name}") from error
    except AzureError as error:
        raise TransferError("BlobDownloadMiscError", str(error), name) from error


def _code(status: int) -> str:
    if status == 404:
        return "BlobNotFound"
    return "BlobAccessDenied" if status in {401, 403, 409} else "BlobDownloadMiscError"


def fetch(blobs: Blobs, files: Iterable[dict[str, Any]] | None, folder: Path) -> None:
    for file in files or ():
        identity = _identity(file)
        mode = file.get("fileMode")
        if file.get("httpUrl"):
            target = _inside(folder, file.get("filePath") or PurePosixPath(file["httpUrl"]).name)
            blobs.download_url(file["httpUrl"], target, identity=identity)
            _set_mode(target, mode)
            continue
        url = file["storageContainerUrl"]
        prefix = file.get("blobPrefix") or ""
        for name, write in blobs.download_container(url, prefix, identity=identity):
            target = _inside(folder, str(PurePosixPath(file.get("filePath") or "") / name))
            write(target)
            _set_mode(target, mode)


def _identity(spec: dict[str, Any]) -> str:
    return str((spec.get("identityReference") or {}).get("resourceId") or "")


def _set_mode(path: Path, mode: str | None) -> None:
    path.chmod(int(mode, 8) if mode else 0o770)


def _inside(folder: Path, name: str) -> Path:
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise TransferError("ResourceFileCreateFailed", "the path leaves the folder", name)
    return target


def keep(blobs: Blobs, outputs: Iterable[dict[str, Any]], folder: Path, *, success: bool) -> None:
    """Uploads the output files whose condition holds. Patterns are relative to the folder `wd`."""
    wanted = {"taskcompletion", "tasksuccess" if success else "taskfailure"}
    for output in outputs:
        condition = output["uploadOptions"]["uploadCondition"]
        destination = (output.get("destination") or {}).get("container")
        if condition.lower() not in wanted or not destination:
            continue
        identity = _identity(destination)
        for path, name in matches(folder, output["filePattern"], destination.get("path") or ""):
            blobs.upload(path, destination["containerUrl"], name, identity=identity)


def matches(folder: Path, pattern: str, path: str) -> Iterator[tuple[Path, str]]:
    """Yields the files that match a pattern, each with the name of its blob.

    With a wildcard, `path` is a prefix, followed by the file's path relative to the last folder
    before the wildcard. Without one, `path` is the full name, or the file's name if it is empty.
    Names that begin with a dot match only if the pattern has that dot: the description of
    OutputFile.file_pattern in azure-batch says so of files, and nothing of folders.
    """
    start = PurePosixPath(pattern)
    parts = list(start.parts)
    plain = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), None)
    if plain is None:
        file = folder / pattern
        if file.is_file():
            yield file, path or file.name
        return
    base = (folder / Path(*parts[:plain])).resolve()
    expression = re.compile(_regex("/".join(parts[plain:])))
    for file in sorted(base.rglob("*")):
        relative = file.relative_to(base).as_posix()
        if not file.is_dir() and expression.fullmatch(relative):
            yield file, f"{path.rstrip('/')}/{relative}" if path else relative


def _regex(pattern: str) -> str:
    """Converts a pattern of `*`, `?`, `**` and `[…]` to a regular expression."""
    visible = r"(?:(?!\.)[^/]+/)*"
    special = {"**/": visible, "**": rf"{visible}(?!\.)[^/]*", "*": "[^/]*", "?": "[^/]"}
    found = ""
    begins = True  # at the start of a path segment
    for piece in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", pattern):
        if begins and piece in ("*", "?"):
            found += r"(?!\.)"
        found += special.get(piece) or (piece if piece.startswith("[") else re.escape(piece))
        begins = piece.endswith("/") or (begins and not piece)
    return found
