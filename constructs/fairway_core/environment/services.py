"""The services beside the clusters: a container registry, and a vault for keys and secrets."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fairway_core.documents import FieldError, Model
from fairway_core.fields import Days
from fairway_core.resource_ids import RegistryId

# Azure's own range for a registry's retention, in days.
_LONGEST_RETENTION = 365
_USUAL_RETENTION = 30


class Registry(Model, defer_build=True):
    """A private container registry, from which nodes pull images.

    Only the tier Premium can be closed to the internet.
    """

    existing: RegistryId | None = None
    """The id of an existing registry to use in place of a new one. Nodes get the right to pull from
    it. Its owner must open its network to the nodes."""
    login_server: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]+[a-z0-9]$")
    """Host name of `existing`, with which the names of its images begin; by default
    `NAME.azurecr.io`."""
    sku: Literal["Basic", "Standard", "Premium"] = "Premium"
    """The tier, which decides size, speed and features."""
    retention: Days | None = None
    """How long to keep manifests without a tag, with Premium only; by default 30 days."""

    @model_validator(mode="after")
    def _existing_is_left_as_it_is(self) -> Self:
        for field in ("sku", "retention") if self.existing else ("login_server",):
            if field in self.model_fields_set:
                raise FieldError(
                    f"`{field}:` has no effect on a registry that "
                    + ("exists" if self.existing else "Fairway makes, which Azure names"),
                    "leave it out",
                    (field,),
                )
        return self

    @property
    def existing_server(self) -> str:
        """How the names of images begin in a registry that is there already."""
        assert self.existing is not None
        return self.login_server or f"{self.existing.rpartition('/')[2].lower()}.azurecr.io"

    @model_validator(mode="after")
    def _retention_is_offered(self) -> Self:
        if self.retention is None:
            return self
        if self.sku != "Premium":
            raise FieldError(
                f"a {self.sku} registry keeps manifests without a tag for ever",
                "use `sku: Premium`, or leave `retention:` out",
                path=("retention",),
            )
        if self.retention > _LONGEST_RETENTION:
            raise FieldError(
                f"a registry keeps manifests without a tag for at most {_LONGEST_RETENTION}d",
                f"take {_LONGEST_RETENTION}d or less",
                path=("retention",),
            )
        return self

    def check_network(self, *, private_endpoints: bool) -> None:
        """Raises FieldError where nodes were to reach it inside the network and cannot."""
        if private_endpoints and not self.existing and self.sku != "Premium":
            raise FieldError(
                f"a {self.sku} registry has no private endpoint and is open to the internet",
                "use `sku: Premium`, or set `private_endpoints: false` under `network:`",
                ("registry", "sku"),
            )

    @property
    def retention_days(self) -> int | None:
        """Days until a manifest without a tag is deleted; None where the sku never does."""
        return (self.retention or _USUAL_RETENTION) if self.sku == "Premium" else None


class Vault(Model, defer_build=True):
    """A key vault, whose secrets nodes may read; `premium` keeps its keys in hardware."""

    sku: Literal["standard", "premium"] = "standard"
    """Whether keys are kept in software or in hardware."""
