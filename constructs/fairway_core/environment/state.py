"""Where Terraform keeps what it knows of the environment."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model
from fairway_core.environment.values import as_field_error
from fairway_core.findings import UserError
from fairway_core.naming import check_name

_RESOURCE_GROUP = re.compile(r"[-\w.()]{0,89}[-\w()]", re.ASCII)


def _resource_group(name: str) -> str:
    if not _RESOURCE_GROUP.fullmatch(name):
        raise FieldError(
            f"`{name}` is not a valid name for a resource group",
            "1 to 90 letters, digits, hyphens, underscores, dots and parentheses; no dot last",
        )
    return name


def _named_as(kind: str) -> AfterValidator:
    def check(name: str) -> str:
        try:
            check_name(kind, name)
        except UserError as error:
            raise as_field_error(error) from None
        return name

    return AfterValidator(check)


class LocalState(Model, defer_build=True):
    """A file beside cdktf.json, for one person's experiments."""

    backend: Literal["local"] = "local"
    """`local`: a file."""


class AzurermState(Model, defer_build=True):
    """A blob in a storage account, locked while Terraform runs and opened with an Entra ID
    identity."""

    backend: Literal["azurerm"]
    """`azurerm`: a blob."""
    resource_group: Annotated[str, AfterValidator(_resource_group)]
    """The resource group of the storage account."""
    storage_account: Annotated[str, _named_as("storage_account")]
    """The storage account's name, unique in all of Azure."""
    container: Annotated[str, _named_as("storage_container")] = "tfstate"
    """The blob container in it."""
    public_access: bool = False
    """Whether the account can be reached from every address, as hosted build agents need, or only
    from `access.allowed`. In both cases it needs an identity with a role on it.
    """


State = Annotated[LocalState | AzurermState, Field(discriminator="backend")]
