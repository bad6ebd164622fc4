"""Resource azurerm_monitor_data_collection_rule_association of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class MonitorDataCollectionRuleAssociation(Resource):
    """The resource azurerm_monitor_data_collection_rule_association."""

    TYPE = "azurerm_monitor_data_collection_rule_association"

    data_collection_endpoint_id = StringAttribute()
    data_collection_rule_id = StringAttribute()
    description = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    target_resource_id = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        target_resource_id: str,
        data_collection_endpoint_id: str | None = None,
        data_collection_rule_id: str | None = None,
        description: str | None = None,
        name: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "target_resource_id": target_resource_id,
                "data_collection_endpoint_id": data_collection_endpoint_id,
                "data_collection_rule_id": data_collection_rule_id,
                "description": description,
                "name": name,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
