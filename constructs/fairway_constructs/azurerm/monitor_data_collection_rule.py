"""Resource azurerm_monitor_data_collection_rule of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class DataFlow(Block):
    """The block `data_flow`."""

    destinations: Sequence[str]
    streams: Sequence[str]
    built_in_transform: str | None = None
    output_stream: str | None = None
    transform_kql: str | None = None


class DataSourcesDataImportEventHubDataSource(Block):
    """The block `data_sources.data_import.event_hub_data_source`."""

    name: str
    stream: str
    consumer_group: str | None = None


class DataSourcesDataImport(Block):
    """The block `data_sources.data_import`."""

    event_hub_data_source: Sequence[DataSourcesDataImportEventHubDataSource]


class DataSourcesExtension(Block):
    """The block `data_sources.extension`."""

    extension_name: str
    name: str
    streams: Sequence[str]
    extension_json: str | None = None
    input_data_sources: Sequence[str] | None = None


class DataSourcesIisLog(Block):
    """The block `data_sources.iis_log`."""

    name: str
    streams: Sequence[str]
    log_directories: Sequence[str] | None = None


class DataSourcesLogFileSettingsText(Block):
    """The block `data_sources.log_file.settings.text`."""

    record_start_timestamp_format: str


class DataSourcesLogFileSettings(Block):
    """The block `data_sources.log_file.settings`."""

    text: DataSourcesLogFileSettingsText


class DataSourcesLogFile(Block):
    """The block `data_sources.log_file`."""

    file_patterns: Sequence[str]
    format: str
    name: str
    streams: Sequence[str]
    settings: DataSourcesLogFileSettings | None = None


class DataSourcesPerformanceCounter(Block):
    """The block `data_sources.performance_counter`."""

    counter_specifiers: Sequence[str]
    name: str
    sampling_frequency_in_seconds: float
    streams: Sequence[str]


class DataSourcesPlatformTelemetry(Block):
    """The block `data_sources.platform_telemetry`."""

    name: str
    streams: Sequence[str]


class DataSourcesPrometheusForwarderLabelIncludeFilter(Block):
    """The block `data_sources.prometheus_forwarder.label_include_filter`."""

    label: str
    value: str


class DataSourcesPrometheusForwarder(Block):
    """The block `data_sources.prometheus_forwarder`."""

    name: str
    streams: Sequence[str]
    label_include_filter: Sequence[DataSourcesPrometheusForwarderLabelIncludeFilter] | None = None


class DataSourcesSyslog(Block):
    """The block `data_sources.syslog`."""

    facility_names: Sequence[str]
    log_levels: Sequence[str]
    name: str
    streams: Sequence[str]


class DataSourcesWindowsEventLog(Block):
    """The block `data_sources.windows_event_log`."""

    name: str
    streams: Sequence[str]
    x_path_queries: Sequence[str]


class DataSourcesWindowsFirewallLog(Block):
    """The block `data_sources.windows_firewall_log`."""

    name: str
    streams: Sequence[str]


class DataSources(Block):
    """The block `data_sources`."""

    data_import: DataSourcesDataImport | None = None
    extension: Sequence[DataSourcesExtension] | None = None
    iis_log: Sequence[DataSourcesIisLog] | None = None
    log_file: Sequence[DataSourcesLogFile] | None = None
    performance_counter: Sequence[DataSourcesPerformanceCounter] | None = None
    platform_telemetry: Sequence[DataSourcesPlatformTelemetry] | None = None
    prometheus_forwarder: Sequence[DataSourcesPrometheusForwarder] | None = None
    syslog: Sequence[DataSourcesSyslog] | None = None
    windows_event_log: Sequence[DataSourcesWindowsEventLog] | None = None
    windows_firewall_log: Sequence[DataSourcesWindowsFirewallLog] | None = None


class DestinationsAzureMonitorMetrics(Block):
    """The block `destinations.azure_monitor_metrics`."""

    name: str


class DestinationsEventHub(Block):
    """The block `destinations.event_hub`."""

    event_hub_id: str
    name: str


class DestinationsEventHubDirect(Block):
    """The block `destinations.event_hub_direct`."""

    event_hub_id: str
    name: str


class DestinationsLogAnalytics(Block):
    """The block `destinations.log_analytics`."""

    name: str
    workspace_resource_id: str


class DestinationsMonitorAccount(Block):
    """The block `destinations.monitor_account`."""

    monitor_account_id: str
    name: str


class DestinationsStorageBlob(Block):
    """The block `destinations.storage_blob`."""

    container_name: str
    name: str
    storage_account_id: str


class DestinationsStorageBlobDirect(Block):
    """The block `destinations.storage_blob_direct`."""

    container_name: str
    name: str
    storage_account_id: str


class DestinationsStorageTableDirect(Block):
    """The block `destinations.storage_table_direct`."""

    name: str
    storage_account_id: str
    table_name: str


class Destinations(Block):
    """The block `destinations`."""

    azure_monitor_metrics: DestinationsAzureMonitorMetrics | None = None
    event_hub: DestinationsEventHub | None = None
    event_hub_direct: DestinationsEventHubDirect | None = None
    log_analytics: Sequence[DestinationsLogAnalytics] | None = None
    monitor_account: Sequence[DestinationsMonitorAccount] | None = None
    storage_blob: Sequence[DestinationsStorageBlob] | None = None
    storage_blob_direct: Sequence[DestinationsStorageBlobDirect] | None = None
    storage_table_direct: Sequence[DestinationsStorageTableDirect] | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class StreamDeclarationColumn(Block):
    """The block `stream_declaration.column`."""

    name: str
    type: str


class StreamDeclaration(Block):
    """The block `stream_declaration`."""

    stream_name: str
    column: Sequence[StreamDeclarationColumn]


class MonitorDataCollectionRule(Resource):
    """The resource azurerm_monitor_data_collection_rule."""

    TYPE = "azurerm_monitor_data_collection_rule"

    data_collection_endpoint_id = StringAttribute()
    description = StringAttribute()
    id = StringAttribute()
    immutable_id = StringAttribute()
    kind = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
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
        data_flow: Sequence[DataFlow],
        destinations: Destinations,
        data_collection_endpoint_id: str | None = None,
        description: str | None = None,
        kind: str | None = None,
        tags: Mapping[str, str] | None = None,
        data_sources: DataSources | None = None,
        identity: Identity | None = None,
        stream_declaration: Sequence[StreamDeclaration] | None = None,
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
                "data_flow": data_flow,
                "destinations": destinations,
                "data_collection_endpoint_id": data_collection_endpoint_id,
                "description": description,
                "kind": kind,
                "tags": tags,
                "data_sources": data_sources,
                "identity": identity,
                "stream_declaration": stream_declaration,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
