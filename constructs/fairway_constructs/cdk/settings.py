"""The blocks of a stack other than resources: the provider's configuration and the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm import PROVIDER_SOURCE
from fairway_constructs.cdk.component import Signature, create
from fairway_constructs.cdk.elements import AZURERM, Arguments, hcl_attributes
from fairway_constructs.cdk.library import (
    TerraformBackend,
    TerraformProvider,
    TerraformRemoteState,
    jsii,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk.library import Construct, Stack


class Provider(Arguments, TerraformProvider):
    """The azurerm provider's configuration in a stack; `AzurermProvider` names its arguments.

    Attributes with their names change them: `provider.subscription_id = …`.
    """

    TYPE = "the provider azurerm"
    __signature__ = Signature()

    def __init__(
        self,
        scope: Construct,
        id: str,
        attributes: Mapping[str, object],
        *,
        alias: str | None = None,
    ) -> None:
        self._take(attributes)
        self._alias = alias
        settings = {
            "terraformResourceType": "azurerm",
            "terraformProviderSource": PROVIDER_SOURCE,
            "terraformGeneratorMetadata": AZURERM,
        }
        create(self, "the provider", scope, id, settings)

    @property  # type: ignore[misc]  # cdktf's own has a setter, which does nothing
    @jsii.member(jsii_name="alias")
    def alias(self) -> str | None:
        """The name of this configuration in `provider=`; the stack's default has none."""
        return self._alias

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._attributes

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        return hcl_attributes("provider", "azurerm", self._attributes)


class Backend(TerraformBackend):
    """Any backend with any settings: cdktf's own classes only accept the settings that were known
    when they were written."""

    def __init__(self, stack: Stack, kind: str, settings: Mapping[str, Any]) -> None:
        self._kind, self._settings = kind, settings
        super().__init__(stack, "backend", kind)

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._settings

    @jsii.member(jsii_name="synthesizeHclAttributes")
    def _synthesize_hcl_attributes(self) -> Mapping[str, Any]:
        from fairway_constructs.hcl import BACKEND, cdktf_attributes

        return cdktf_attributes(self._settings, BACKEND)

    @jsii.member(jsii_name="getRemoteStateDataSource")
    def get_remote_state_data_source(
        self, scope: Construct, name: str, _: str
    ) -> TerraformRemoteState:
        """Returns the state with the same settings, for a stack that reads its outputs."""
        return _RemoteState(scope, name, self._kind, self._settings)


class _RemoteState(TerraformRemoteState):
    def __init__(self, scope: Construct, name: str, kind: str, settings: Mapping[str, Any]) -> None:
        # `http` and `remote` have one state with these settings, and no workspaces.
        workspace = {} if kind in ("http", "remote") else {"workspace": "${terraform.workspace}"}
        jsii.create(type(self), self, [scope, name, kind, workspace])
        self.add_override("config", settings)
