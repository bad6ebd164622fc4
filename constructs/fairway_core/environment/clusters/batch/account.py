"""The Batch account of an environment."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from fairway_core.cost.line_items import ONE, LineItem
from fairway_core.documents import Check, FieldError, rule
from fairway_core.environment.clusters.base import Manager
from fairway_core.environment.clusters.batch.pool import BatchCluster
from fairway_core.environment.clusters.node_rules import most_pool_nodes
from fairway_core.resource_ids import GUID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment.clusters.base import Box, Surroundings

# "Microsoft Azure Batch" in every Entra ID directory. Source: Azure documentation, create a Batch
# account.
BATCH_APPLICATION_ID = "ddbf3205-c6bd-46ae-8127-60eb93363864"

_HOW_TO_FIND_IT = f"az ad sp show --id {BATCH_APPLICATION_ID} --query id --output tsv"


def _object_id(text: str) -> None:
    if not re.fullmatch(GUID, text):
        raise FieldError(f"`{text}` is not an object id", _HOW_TO_FIND_IT)
    if text.lower() == BATCH_APPLICATION_ID:
        raise FieldError(
            "this is the id of the application, which is the same for everyone", _HOW_TO_FIND_IT
        )


class Batch(Manager, defer_build=True):
    """The Batch account of the environment.

    With `mode: UserSubscription`, nodes count against the subscription's quota of cores. It needs
    `service_principal`, the object id of Batch in your directory: Batch then creates the VMs in
    your subscription, and gets a role there to do so.
    """

    private_links: ClassVar = ("batch",)
    encrypted: ClassVar = {"batch": "the Batch account"}
    address_rules: ClassVar = {"batch": 0}

    mode: Literal["BatchService", "UserSubscription"] = "BatchService"
    """Which quota the nodes count against: the Batch account's or the subscription's."""
    service_principal: Annotated[str, Check(_object_id)] | None = None
    """The object id of "Microsoft Azure Batch" in your directory, for `UserSubscription`."""

    @rule
    def _batch_is_known_where_it_acts_for_us(self) -> None:
        needed = self.mode == "UserSubscription"
        if needed and self.service_principal is None:
            raise FieldError(
                "`mode: UserSubscription` needs the `service_principal:` of Batch", _HOW_TO_FIND_IT
            )
        if not needed and self.service_principal is not None:
            raise FieldError(
                "`service_principal:` has no effect with `mode: BatchService`",
                "leave it out",
                ("service_principal",),
            )

    @property
    def services(self) -> tuple[Box, ...]:
        """The account, and the vault that one of `UserSubscription` needs."""
        account = "batch", "batch_account", "Batch account", "batchAccount, nodeManagement"
        vault = "batch-vault", "batch_key_vault", "key vault", ""
        return (account, vault) if self.service_principal else (account,)

    def check(self, around: Surroundings) -> None:
        """Raises FieldError if pools, their account and the network do not fit together."""
        most = most_pool_nodes(self.mode, mpi=True)
        for name, pool in around.of(BatchCluster).items():
            if pool.mpi and pool.node_range.max > most:
                raise FieldError(
                    f"with `mode: {self.mode}` a pool for MPI holds at most {most} nodes",
                    "make several pools",
                    ("clusters", name, "nodes"),
                )
        if not around.network.private_endpoints and not around.access.allowed:
            raise FieldError(
                "nobody could submit jobs to the Batch account: it has no private endpoint, "
                "and no range is allowed",
                "name the ranges that you work from under `access.allowed:`",
                ("network", "private_endpoints"),
            )

    def cost(self, endpoint: list[LineItem]) -> Iterator[tuple[str, list[LineItem]]]:
        """Yields the account's private endpoints: idle it costs nothing itself."""
        both = [replace(each, what=f"2 {each.what}s", counts=ONE.times(2)) for each in endpoint]
        yield "Batch account", both
