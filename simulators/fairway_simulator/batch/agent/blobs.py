"""What a node reads from and writes to storage."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from azure.storage.blob import ContainerClient

_TIMEOUT = 60.0


@dataclass(frozen=True)
class StorageAccess:
    """The storage account that stands for the one linked to the Batch account.

    A pool's managed identity may read and write it: what names an identity is authorised with
    the account's key.
    """

    url: str
    account: str
    key: str

    def owns(self, url: str) -> bool:
        """Whether a URL leads into this account."""
        return url.startswith(self.url.rstrip("/") + "/")

    @property
    def connection_string(self) -> str:
        """As AZURE_STORAGE_CONNECTION_STRING has it."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};"
            f"AccountKey={self.key};BlobEndpoint={self.url};"
        )


class TransferError(Exception):
    """A file could not be brought or taken; `code` is the service's own."""

    def __init__(self, code: str, message: str, where: str) -> None:
        super().__init__(message)
        self.code = code
        self.where = where


class Blobs:
    """Storage as a node reaches it. `identity` is the resource id of the pool's identity, which
    may read and write the account's own; where a request names one, it must be that one (see
    BatchNodeIdentityReference of azure-batch: one "associated with the Batch pool")."""

    def __init__(self, access: StorageAccess | None, identity: str) -> None:
        self.access = access
        self._identity = identity

    def download_url(self, url: str, target: Path, *, identity: str) -> None:
        """Brings one file from a URL; `identity` is as it was named, "" for none."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if identity:
            container, name = self._split(url)
            _download(self.container(container, identity=identity), name, target)
            return
        if urlsplit(url).scheme not in {"http", "https"}:
            raise TransferError("BlobDownloadMiscError", f"{url} is no http URL", url)
        try:
            request = urllib.request.Request(url)  # noqa: S310 - http or https, as checked above
            with (
                urllib.request.urlopen(request, timeout=_TIMEOUT) as source,  # noqa: S310
                target.open("wb") as file,
            ):
                while chunk := source.read(1 << 20):
                    file.write(chunk)
        except urllib.error.HTTPError as error:
            with error:
                raise TransferError(_code(error.code), str(error.reason), _bare(url)) from error
        except OSError as error:
            raise TransferError("BlobDownloadMiscError", str(error), _bare(url)) from error

    def download_container(
        self, url: str, prefix: str, *, identity: str
    ) -> Iterator[tuple[str, Any]]:
        """The names of a container's blobs, each with what writes it to a path."""
        from azure.core.exceptions import HttpResponseError

        container = self.container(url, identity=identity)
        try:
            names = [blob.name for blob in container.list_blobs(name_starts_with=prefix or None)]
        except HttpResponseError as error:
            code = "ResourceContainerListDiagnosticFailed"
            raise TransferError(code, str(error.message), _bare(url)) from error
        for name in names:
            yield name, lambda target, name=name: _download(container, name, target)

    def upload(self, source: Path, url: str, name: str, *, identity: str) -> None:
        """Takes a file to a container."""
        from azure.core.exceptions import AzureError, HttpResponseError

        container = self.container(url, identity=identity, uploads=True)
        try:
            with source.open("rb") as file:
                container.upload_blob(name, file, overwrite=True)
        except HttpResponseError as error:
            codes = {404: "FileUploadContainerNotFound", 403: "FileUploadAccessDenied"}
            code = codes.get(error.status_code or 0, "FileUploadMiscError")
            raise TransferError(code, str(error.message), _bare(url)) from error
        except AzureError as error:
            raise TransferError("FileUploadMiscError", str(error), _bare(url)) from error

    def container(self, url: str, *, identity: str, uploads: bool = False) -> ContainerClient:
        """A client for the container at a URL, by the key where an identity is meant."""
        from azure.storage.blob import ContainerClient

        if not identity:
            return ContainerClient.from_container_url(url)
        is_own = identity.lower() == self._identity.lower()
        if self.access is None or not self.access.owns(url) or not is_own:
            code = "FileUploadAccessDenied" if uploads else "BlobAccessDenied"
            why = "has no access to this storage" if is_own else "is not the pool's"
            raise TransferError(code, f"the identity {identity} {why}", url)
        credential = {"account_name": self.access.account, "account_key": self.access.key}
        return ContainerClient.from_container_url(url, credential=credential)

    def _split(self, url: str) -> tuple[str, str]:
        """A blob's URL as its container's URL and its name."""
        from urllib.parse import unquote

        if self.access is None or not self.access.owns(url):
            message = "the pool's identity has no access to this storage"
            raise TransferError("BlobAccessDenied", message, url)
        rest = urlsplit(url)._replace(query="", fragment="").geturl()
        container, _, name = rest[len(self.access.url.rstrip("/")) + 1 :].partition("/")
        return f"{self.access.url.rstrip('/')}/{container}", unquote(name)


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


def _bare(url: str) -> str:
    """A URL without its query, which may hold a signature."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
