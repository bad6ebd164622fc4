"""The storage account of a target, with the code, keys, logs and outputs of runs."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from fairway_core.findings import UserError
from fairway_runner.engines.azure_calls import Calls, ServiceError, ignore_missing

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties, BlobServiceClient, ContainerClient

    from fairway_core.target import Target

T = TypeVar("T")
OUTPUTS, CODE = "outputs", "code"
"""The account's private containers: what tasks keep, and what they are made of."""

_HINT = "log in with `az login`, or set AZURE_STORAGE_CONNECTION_STRING"


class Storage:
    """The storage account of one target."""

    def __init__(self, target: Target, deadline: float) -> None:
        self.target = target
        self.calls = Calls("Azure Storage", deadline, _HINT)

    @cached_property
    def client(self) -> BlobServiceClient:
        """The SDK's client. Raises UserError if neither target nor environment names an account."""
        from azure.storage.blob import BlobServiceClient

        from fairway_runner.engines.azure_sdk import token_credential

        url = self.target.storage.account_url if self.target.storage else ""
        given = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
        if given:
            try:
                named = BlobServiceClient.from_connection_string(given).url
            except ValueError:
                message = "AZURE_STORAGE_CONNECTION_STRING is not a connection string"
                hint = "print it again: az storage account show-connection-string --name ACCOUNT"
                raise UserError.of("bad-connection-string", message, hint) from None
            if not url or urlsplit(named).netloc == urlsplit(url).netloc:
                self.calls.address = named
                return BlobServiceClient.from_connection_string(given, **self._options(named))
        if not url:
            message = f"the address of the storage account of `{self.target.name}` is not known"
            hint = "set AZURE_STORAGE_CONNECTION_STRING, or add `storage:` to the target"
            raise UserError.of("no-storage", message, hint)
        self.calls.has_token, self.calls.address = True, url
        return BlobServiceClient(url, token_credential(), **self._options(url))

    def _options(self, url: str) -> dict[str, Any]:
        from fairway_runner.engines.azure_sdk import transport

        return {"transport": transport(self.target, url, self.calls.deadline), "retry_total": 0}

    def container(self, name: str) -> ContainerClient:
        """Returns a container's client."""
        return self.client.get_container_client(name)

    def container_url(self, container: str) -> str:
        """Returns a container's address."""
        return f"{self.client.url.rstrip('/')}/{container}"

    def upload(self, container: str, name: str, data: bytes | Path) -> None:
        """Writes a blob, replacing any; a file is streamed."""
        client = self.container(container)

        def upload() -> None:
            with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
                client.upload_blob(name, file, overwrite=True)

        self._call(container, name, upload, brief=False)

    def exists(self, container: str, name: str) -> bool:
        """Returns True if a blob of that name exists."""
        blob = self.container(container).get_blob_client(name)
        return self._call(container, name, blob.exists)

    def read(self, container: str, name: str, first: int = 0, count: int | None = None) -> bytes:
        """Returns a blob's bytes from `first` on. Raises ServiceError 404 if it does not exist."""
        client = self.container(container)

        def download() -> bytes:
            return bytes(client.download_blob(name, offset=first, length=count).readall())

        try:
            return self._call(container, name, download, brief=False)
        except ServiceError as error:
            if error.status == 416:  # the blob ends before `first`
                return b""
            raise

    def write_to(self, container: str, name: str, file: BinaryIO) -> None:
        """Copies a blob into an open file, from its beginning."""
        client = self.container(container)

        def download() -> None:
            file.seek(0)
            file.truncate()
            client.download_blob(name).readinto(file)

        self._call(container, name, download, brief=False)

    def blobs(self, container: str, prefix: str) -> Iterator[BlobProperties]:
        """Yields the blobs whose names have this prefix."""
        items = self.container(container).list_blobs(name_starts_with=prefix)
        with self._within(container):
            yield from self.calls.pages(f"the container {container}", items)

    def delete(self, container: str, names: Iterable[str]) -> None:
        """Deletes blobs; missing ones are ignored."""
        client = self.container(container)
        for name in names:
            with ignore_missing():
                self._call(container, name, partial(client.delete_blob, name))

    def _call(
        self, container: str, blob: str, operation: Callable[[], T], *, brief: bool = True
    ) -> T:
        with self._within(container):
            return self.calls.call(f"the blob {blob}", operation, brief=brief)

    @contextmanager
    def _within(self, container: str) -> Iterator[None]:
        """Raises UserError if the container used in the block does not exist."""
        try:
            yield
        except ServiceError as error:
            if error.code != "ContainerNotFound":
                raise
            message = f"the storage account has no container `{container}`"
            hint = f"az storage container create --name {container} --auth-mode login"
            raise UserError.of("no-container", message, hint) from None
