"""Places where Terraform keeps the state of an environment."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from fairway_core.catalog.tables import table
from fairway_core.documents import FieldError, Model, matching, rule
from fairway_core.environment.values import accepted_by
from fairway_core.naming import check_name
from fairway_core.suggestions import did_you_mean


class LocalState(Model, defer_build=True):
    """A file beside cdktf.json, for one person's experiments."""

    backend: Literal["local"] = "local"
    """`local`: a file."""


class AzurermState(Model, defer_build=True):
    """A blob in a storage account, locked while Terraform runs and opened with an Entra ID
    identity."""

    backend: Literal["azurerm"]
    """`azurerm`: a blob."""
    resource_group: Annotated[
        str,
        matching(
            r"(?a)[-\w.()]{0,89}[-\w()]",
            "`{}` is not a valid name for a resource group",
            "1 to 90 letters, digits, hyphens, underscores, dots and parentheses; no dot last",
        ),
    ]
    """The resource group of the storage account."""
    storage_account: Annotated[str, accepted_by(partial(check_name, "storage_account"))]
    """The storage account's name, unique in all of Azure."""
    container: Annotated[str, accepted_by(partial(check_name, "storage_container"))] = "tfstate"
    """The blob container in it."""
    public_access: bool = False
    """Open the account to every address, as hosted build agents need, and not only to
    `access.allowed`. In both cases it needs an identity with a role on it.
    """


class OtherState(Model, defer_build=True):
    """A backend of Terraform outside of Azure. Each stack has a state of its own there, named after
    it; credentials come from the backend's environment variables."""

    backend: Literal["s3", "gcs", "http", "remote", "cloud"]
    """`s3`, `gcs`, `http`, `remote` or `cloud`, as Terraform calls them."""
    settings: dict[str, str | int | bool | tuple[str, ...]] = Field(default_factory=dict)
    """Settings of the backend, by Terraform's own names, for example `bucket`."""

    @rule
    def _settings_are_known(self) -> None:
        facts = table("backends")["backends"][self.backend]
        for name, value in self.settings.items():
            if isinstance(value, str) and re.match("[^/]+://[^/]*@", value):
                raise FieldError(
                    f"`{name}` holds a user or a password, which a file must not hold",
                    "remove it from the address, and set it where Terraform runs",
                    ("settings", name),
                )
            variable = facts["credentials"].get(name)
            if variable:
                raise FieldError(
                    f"`{name}` is a credential, which a file must not hold",
                    f"remove it here, and set {variable} where Terraform runs",
                    ("settings", name),
                )
            known = [*facts["required"], *facts["optional"]]
            if name not in known:
                hint = did_you_mean(name, known) or f"it takes {', '.join(sorted(known))}"
                raise FieldError(
                    f"backend `{self.backend}` takes no `{name}`", hint, ("settings", name)
                )
        for name in facts["required"]:
            if name not in self.settings:
                raise FieldError(
                    f"backend `{self.backend}` needs `{name}`", f"add `{name}:` under `settings:`"
                )


State = Annotated[LocalState | AzurermState | OtherState, Field(discriminator="backend")]
