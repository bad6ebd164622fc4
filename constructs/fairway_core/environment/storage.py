"""Blob storage: the account's containers, how long they keep what is in them, its encryption."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fairway_core.documents import FieldError, Model
from fairway_core.durations import Days
from fairway_core.environment.values import as_field_error, named
from fairway_core.findings import UserError
from fairway_core.naming import check_name


class Container(Model, defer_build=True):
    """A private blob container."""

    expire: Days | None = None
    """How long Azure keeps a blob after its last change; without it nothing is deleted."""


class Storage(Model, defer_build=True):
    """The Blob storage account: its name, its copies, its encryption and its containers."""

    account: str | None = None
    """The account's name, which must be free in all of Azure; without it one is made up."""
    replication: Literal["LRS", "ZRS", "GRS", "RAGRS", "GZRS", "RAGZRS"] | None = None
    """How many copies there are and where: LRS in one zone, ZRS in three, the others in two
    regions. Without it ZRS, or LRS with `zone: none`.
    """
    customer_managed_key: bool = False
    """Whether its content is encrypted with a key in the environment's own vault."""
    account_keys: bool = False
    """Whether the account's keys open it too: only where Lustre imports from it."""
    containers: dict[str, Container] = Field(
        default_factory=lambda: {name: Container() for name in ("datasets", "outputs", "code")}
    )
    """The blob containers, by name."""

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        if self.account is not None:
            try:
                check_name("storage_account", self.account)
            except UserError as error:
                raise as_field_error(error, ("account",)) from None
        try:
            named(self.containers)
            for name in self.containers:
                check_name("storage_container", name)
        except FieldError as error:
            raise FieldError(str(error), error.hint, ("containers", *error.path)) from None
        except UserError as error:
            raise as_field_error(error, ("containers",)) from None
        return self
