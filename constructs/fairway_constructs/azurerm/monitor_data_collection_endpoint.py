"""Resource azurerm_monitor_data_collection_endpoint of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class MonitorDataCollectionEndpoint(Resource):
    """The resource azurerm_monitor_data_collection_endpoint."""

    TYPE = "azurerm_monitor_data_collection_endpoint"

    configuration_access_endpoint = StringAttribute()
    description = StringAttribute()
    id = StringAttribute()
    immutable_id = StringAttribute()
    kind = StringAttribute()
    location = StringAttribute()
    logs_ingestion_endpoint = StringAttribute()
    metrics_ingestion_endpoint = StringAttribute()
    name = StringAttribute()
    public_network_access_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        description: str | None = None,
        kind: str | None = None,
        public_network_access_enabled: bool | None = None,
        tags: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "description": description,
                "kind": kind,
                "public_network_access_enabled": public_network_access_enabled,
                "tags": tags,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
