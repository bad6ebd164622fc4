"""The CDK for Terraform as Fairway uses it; the one module that names cdktf.

cdktf is archived and its fork keeps the API: moving to the fork means changing the
imports below and nothing else. What stands on top is small: base classes whose
attributes are a plain dict, typed references to them, and a typed lifecycle. The
classes for Azure's resources are generated, see `fairway_constructs.azurerm`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairway_constructs.azurerm import PROVIDER_SOURCE, PROVIDER_VERSION
from fairway_constructs.bindings.blocks import Timeouts, terraform_value
from fairway_constructs.node import prepare_node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


prepare_node(os.environ)

import jsii  # noqa: E402
from cdktf import (  # noqa: E402
    App,
    AzurermBackend,
    Fn,
    IResolvable,
    ITerraformDependable,
    LocalBackend,
    TerraformDataSource,
    TerraformProvider,
    TerraformProviderGeneratorMetadata,
    TerraformResource,
    TerraformResourceLifecycle,
    Token,
)
from cdktf import TerraformOutput as Output  # noqa: E402
from cdktf import TerraformStack as Stack  # noqa: E402
from constructs import Construct  # noqa: E402

__all__ = [
    "App",
    "AzurermBackend",
    "Construct",
    "DataSource",
    "Fn",
    "IResolvable",
    "ITerraformDependable",
    "Lifecycle",
    "LocalBackend",
    "Output",
    "Provider",
    "Resource",
    "Stack",
    "Timeouts",
    "Token",
]

# On every element, so that `required_providers` is written whatever a stack holds.
_AZURERM = TerraformProviderGeneratorMetadata(
    provider_name="azurerm", provider_version_constraint=PROVIDER_VERSION
)


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """Terraform's `lifecycle` block.

    `ignore_changes` takes attribute names or "all"; `replace_triggered_by` takes
    resources of the same stack, or addresses such as "terraform_data.x.output".
    """

    prevent_destroy: bool = False
    create_before_destroy: bool = False
    ignore_changes: Sequence[str] | Literal["all"] = ()
    replace_triggered_by: Sequence[Resource | str] = ()

    def to_terraform(self) -> TerraformResourceLifecycle:
        """The same for cdktf; what is false or empty is left out.

        Raises ValueError for an expression where Terraform wants an address.
        """
        changes = self.ignore_changes
        return TerraformResourceLifecycle(
            prevent_destroy=self.prevent_destroy or None,
            create_before_destroy=self.create_before_destroy or None,
            ignore_changes=changes if changes == "all" else list(changes) or None,
            replace_triggered_by=[_address(trigger) for trigger in self.replace_triggered_by]
            or None,
        )


def _address(trigger: Resource | str) -> str:
    """The resource's bare address: cdktf would write "${…}", which Terraform rejects here."""
    if isinstance(trigger, Resource):
        return f"{trigger.TYPE}.{trigger.friendly_unique_id}"
    if "${" in trigger:
        raise ValueError(f"replace_triggered_by takes an address, not the expression {trigger}")
    return trigger


class Resource(TerraformResource):
    """A managed resource; the generated classes name their type and arguments.

    `attributes` maps Terraform's names to plain values, blocks or None, which is left out.
    """

    TYPE: ClassVar[str]
    PROVIDER: ClassVar[TerraformProviderGeneratorMetadata | None] = _AZURERM

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: TerraformProvider | None = None,
    ) -> None:
        self._attributes: dict[str, Any] = terraform_value(attributes)
        super().__init__(
            scope,
            id,
            terraform_resource_type=self.TYPE,
            terraform_generator_metadata=self.PROVIDER,
            lifecycle=lifecycle.to_terraform() if lifecycle else None,
            depends_on=list(depends_on) or None,
            provider=provider,
        )

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._attributes

    def reference(self, path: str) -> str:
        """A reference to any attribute, for example "identity[0].principal_id"."""
        return self.get_string_attribute(path)


class DataSource(TerraformDataSource):
    """A data source: like `Resource`, but read and never made."""

    TYPE: ClassVar[str]

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: TerraformProvider | None = None,
    ) -> None:
        self._attributes: dict[str, Any] = terraform_value(attributes)
        super().__init__(
            scope,
            id,
            terraform_resource_type=self.TYPE,
            terraform_generator_metadata=_AZURERM,
            depends_on=list(depends_on) or None,
            provider=provider,
        )

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._attributes

    def reference(self, path: str) -> str:
        """A reference to any attribute, for example "plan[0].name"."""
        return self.get_string_attribute(path)


class Provider(TerraformProvider):
    """The azurerm provider's configuration in a stack; `AzurermProvider` names its arguments."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002
        attributes: Mapping[str, object],
        *,
        alias: str | None = None,
    ) -> None:
        self._attributes: dict[str, Any] = terraform_value(attributes)
        self._alias = alias
        super().__init__(
            scope,
            id,
            terraform_resource_type="azurerm",
            terraform_provider_source=PROVIDER_SOURCE,
            terraform_generator_metadata=_AZURERM,
        )

    @property  # type: ignore[misc]  # cdktf's own has a setter, which does nothing
    @jsii.member(jsii_name="alias")
    def alias(self) -> str | None:
        """The name by which `provider=` tells this configuration from the stack's default."""
        return self._alias

    @jsii.member(jsii_name="synthesizeAttributes")
    def _synthesize_attributes(self) -> Mapping[str, Any]:
        return self._attributes
