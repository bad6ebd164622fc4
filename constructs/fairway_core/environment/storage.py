"""Blob storage: the account's containers, their retention, and its encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from fairway_core.documents import FieldError, Model, rule
from fairway_core.environment.values import below_path, require_azure_names
from fairway_core.fields import Days
from fairway_core.naming import check_name
from fairway_core.resource_ids import StorageAccountId

if TYPE_CHECKING:
    from fairway_core.environment.network import Network
    from fairway_core.yaml_text import DataPath

Replication = Literal["LRS", "ZRS", "GRS", "RAGRS", "GZRS", "RAGZRS"]

# The owner of an existing account decides these.
_OWNERS = ("account", "replication", "customer_managed_key", "account_keys")


class Container(Model, defer_build=True):
    """A private blob container."""

    expire: Days | None = None
    """The time for which Azure keeps a blob after its last change; by default for ever."""


class Storage(Model, defer_build=True):
    """The Blob storage account: its name, replication, encryption and containers."""

    existing: StorageAccountId | None = None
    """The id of an existing account in the environment's region, to use in place of a new one.
    Nodes get access to its `containers:`, which must exist too. Its owner must open its network to
    the nodes."""
    private_endpoint: bool = False
    """Create a private endpoint for `existing` in this network."""
    account: str | None = None
    """The account's name, unique in all of Azure; by default Fairway generates one."""
    replication: Replication | None = None
    """Placement of copies: LRS in one zone, ZRS in three, the others in two regions. By default
    ZRS, or LRS with `zone: none`.
    """
    customer_managed_key: bool = False
    """Encrypt the account with a key in the environment's vault."""
    account_keys: bool = False
    """Let the account's keys give access too; only for Lustre's import from it."""
    containers: dict[str, Container] = Field(
        default_factory=lambda: {name: Container() for name in ("datasets", "outputs", "code")}
    )
    """The blob containers, by name."""

    @rule
    def _existing_is_left_as_it_is(self) -> None:
        for field in _OWNERS if self.existing else ("private_endpoint",):
            if field in self.model_fields_set:
                raise FieldError(
                    f"`{field}:` has no effect on an account that "
                    + ("exists" if self.existing else "Fairway makes"),
                    "leave it out"
                    if self.existing
                    else "leave it out: `private_endpoints:` under `network:` decides",
                    (field,),
                )
        for name, container in self.containers.items() if self.existing else ():
            if container.expire:
                raise FieldError(
                    "an account has one set of expiry rules; an existing account's belong "
                    "to its owner",
                    "leave it out, and ask the owner for a rule",
                    ("containers", name, "expire"),
                )

    @property
    def has_endpoint(self) -> bool:
        """True if the account gets a private endpoint, provided that the network has any."""
        return self.private_endpoint or not self.existing

    def check_container(self, name: str, path: DataPath) -> None:
        """Raises FieldError if the container that the field at `path` names does not exist."""
        if name not in self.containers:
            from fairway_core.suggestions import did_you_mean

            hint = did_you_mean(name, self.containers) or "add it there"
            raise FieldError(f"no `{name}` under `storage.containers:`", hint, path)

    def check_network(self, network: Network) -> None:
        """Raises FieldError if the network cannot have the requested private endpoint."""
        if not self.private_endpoint:
            return
        path = ("storage", "private_endpoint")
        if not network.private_endpoints:
            raise FieldError(
                "this network has no private endpoints",
                "leave it out, or remove `private_endpoints: false` under `network:`",
                path,
            )
        if isinstance(network.dns.zones, dict):
            raise FieldError(
                "a zone holds one address per account: this endpoint would take over the "
                f"name of `{(self.existing or '').rpartition('/')[2]}` from its present "
                "users",
                "leave it out: the network's owner decides how nodes reach the account",
                path,
            )

    @rule
    def _names_fit(self) -> None:
        if self.account is not None:
            with below_path("account"):
                check_name("storage_account", self.account)
        with below_path("containers"):
            require_azure_names(self.containers)
            for name in self.containers:
                check_name("storage_container", name)
