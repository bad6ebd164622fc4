"""A storage account that is there already: nothing of it is made, and its rules stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_storage_container import DataStorageContainer
from fairway_constructs.cdk import Component
from fairway_core.catalog.private_links import blob_host
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct


@dataclass(frozen=True)
class ExistingContainer:
    """A container that is there already."""

    id: str


class ExistingStorage(Component):
    """An existing storage account and its containers, in place of a `Storage`.

    Terraform stops before it makes anything where one of the containers is not there. It reads
    them by the account's id, and not the account itself, with which it would keep the keys.

    >>> storage = ExistingStorage(stack, account_id=id, containers=["datasets"])  # doctest: +SKIP
    >>> storage.account_url, storage.containers["datasets"].id  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "storage",  # noqa: A002
        *,
        account_id: str,
        containers: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        self.id = account_id
        name = parts_of("storage account", account_id)["name"]
        self.host = blob_host(name)
        self.account_url = f"https://{self.host}/"
        for container in containers:
            DataStorageContainer(
                self, f"container-{container}", name=container, storage_account_id=account_id
            )
        self.containers: Mapping[str, ExistingContainer] = {
            container: ExistingContainer(
                f"{account_id}/blobServices/default/containers/{container}"
            )
            for container in containers
        }
