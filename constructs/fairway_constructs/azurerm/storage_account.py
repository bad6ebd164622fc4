"""Resource azurerm_storage_account of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class AzureFilesAuthenticationActiveDirectory(Block):
    """The block `azure_files_authentication.active_directory`."""

    domain_guid: str
    domain_name: str
    domain_sid: str | None = None
    forest_name: str | None = None
    netbios_domain_name: str | None = None
    storage_sid: str | None = None


class AzureFilesAuthentication(Block):
    """The block `azure_files_authentication`."""

    directory_type: str
    default_share_level_permission: str | None = None
    active_directory: AzureFilesAuthenticationActiveDirectory | None = None


class BlobPropertiesContainerDeleteRetentionPolicy(Block):
    """The block `blob_properties.container_delete_retention_policy`."""

    days: float | None = None


class BlobPropertiesCorsRule(Block):
    """The block `blob_properties.cors_rule`."""

    allowed_headers: Sequence[str]
    allowed_methods: Sequence[str]
    allowed_origins: Sequence[str]
    exposed_headers: Sequence[str]
    max_age_in_seconds: float


class BlobPropertiesDeleteRetentionPolicy(Block):
    """The block `blob_properties.delete_retention_policy`."""

    days: float | None = None
    permanent_delete_enabled: bool | None = None


class BlobPropertiesRestorePolicy(Block):
    """The block `blob_properties.restore_policy`."""

    days: float


class BlobProperties(Block):
    """The block `blob_properties`."""

    change_feed_enabled: bool | None = None
    change_feed_retention_in_days: float | None = None
    default_service_version: str | None = None
    last_access_time_enabled: bool | None = None
    versioning_enabled: bool | None = None
    container_delete_retention_policy: BlobPropertiesContainerDeleteRetentionPolicy | None = None
    cors_rule: Sequence[BlobPropertiesCorsRule] | None = None
    delete_retention_policy: BlobPropertiesDeleteRetentionPolicy | None = None
    restore_policy: BlobPropertiesRestorePolicy | None = None


class CustomDomain(Block):
    """The block `custom_domain`."""

    name: str
    use_subdomain: bool | None = None


class CustomerManagedKey(Block):
    """The block `customer_managed_key`."""

    key_vault_key_id: str
    user_assigned_identity_id: str


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class ImmutabilityPolicy(Block):
    """The block `immutability_policy`."""

    allow_protected_append_writes: bool
    period_since_creation_in_days: float
    state: str


class NetworkRulesPrivateLinkAccess(Block):
    """The block `network_rules.private_link_access`."""

    endpoint_resource_id: str
    endpoint_tenant_id: str | None = None


class NetworkRules(Block):
    """The block `network_rules`."""

    default_action: str
    bypass: Sequence[str] | None = None
    ip_rules: Sequence[str] | None = None
    virtual_network_subnet_ids: Sequence[str] | None = None
    private_link_access: Sequence[NetworkRulesPrivateLinkAccess] | None = None


class Routing(Block):
    """The block `routing`."""

    choice: str | None = None
    publish_internet_endpoints: bool | None = None
    publish_microsoft_endpoints: bool | None = None


class SasPolicy(Block):
    """The block `sas_policy`."""

    expiration_period: str
    expiration_action: str | None = None


class SharePropertiesCorsRule(Block):
    """The block `share_properties.cors_rule`."""

    allowed_headers: Sequence[str]
    allowed_methods: Sequence[str]
    allowed_origins: Sequence[str]
    exposed_headers: Sequence[str]
    max_age_in_seconds: float


class SharePropertiesRetentionPolicy(Block):
    """The block `share_properties.retention_policy`."""

    days: float | None = None


class SharePropertiesSmb(Block):
    """The block `share_properties.smb`."""

    authentication_types: Sequence[str] | None = None
    channel_encryption_type: Sequence[str] | None = None
    kerberos_ticket_encryption_type: Sequence[str] | None = None
    multichannel_enabled: bool | None = None
    versions: Sequence[str] | None = None


class ShareProperties(Block):
    """The block `share_properties`."""

    cors_rule: Sequence[SharePropertiesCorsRule] | None = None
    retention_policy: SharePropertiesRetentionPolicy | None = None
    smb: SharePropertiesSmb | None = None


class StorageAccount(Resource):
    """The resource azurerm_storage_account."""

    TYPE = "azurerm_storage_account"

    access_tier = StringAttribute()
    account_kind = StringAttribute()
    account_replication_type = StringAttribute()
    account_tier = StringAttribute()
    allow_nested_items_to_be_public = BooleanAttribute()
    allowed_copy_scope = StringAttribute()
    cross_tenant_replication_enabled = BooleanAttribute()
    default_to_oauth_authentication = BooleanAttribute()
    dns_endpoint_type = StringAttribute()
    edge_zone = StringAttribute()
    https_traffic_only_enabled = BooleanAttribute()
    id = StringAttribute()
    infrastructure_encryption_enabled = BooleanAttribute()
    is_hns_enabled = BooleanAttribute()
    large_file_share_enabled = BooleanAttribute()
    local_user_enabled = BooleanAttribute()
    location = StringAttribute()
    min_tls_version = StringAttribute()
    name = StringAttribute()
    nfsv3_enabled = BooleanAttribute()
    primary_access_key = StringAttribute()
    primary_blob_connection_string = StringAttribute()
    primary_blob_endpoint = StringAttribute()
    primary_blob_host = StringAttribute()
    primary_blob_internet_endpoint = StringAttribute()
    primary_blob_internet_host = StringAttribute()
    primary_blob_microsoft_endpoint = StringAttribute()
    primary_blob_microsoft_host = StringAttribute()
    primary_connection_string = StringAttribute()
    primary_dfs_endpoint = StringAttribute()
    primary_dfs_host = StringAttribute()
    primary_dfs_internet_endpoint = StringAttribute()
    primary_dfs_internet_host = StringAttribute()
    primary_dfs_microsoft_endpoint = StringAttribute()
    primary_dfs_microsoft_host = StringAttribute()
    primary_file_endpoint = StringAttribute()
    primary_file_host = StringAttribute()
    primary_file_internet_endpoint = StringAttribute()
    primary_file_internet_host = StringAttribute()
    primary_file_microsoft_endpoint = StringAttribute()
    primary_file_microsoft_host = StringAttribute()
    primary_location = StringAttribute()
    primary_queue_endpoint = StringAttribute()
    primary_queue_host = StringAttribute()
    primary_queue_microsoft_endpoint = StringAttribute()
    primary_queue_microsoft_host = StringAttribute()
    primary_table_endpoint = StringAttribute()
    primary_table_host = StringAttribute()
    primary_table_microsoft_endpoint = StringAttribute()
    primary_table_microsoft_host = StringAttribute()
    primary_web_endpoint = StringAttribute()
    primary_web_host = StringAttribute()
    primary_web_internet_endpoint = StringAttribute()
    primary_web_internet_host = StringAttribute()
    primary_web_microsoft_endpoint = StringAttribute()
    primary_web_microsoft_host = StringAttribute()
    provisioned_billing_model_version = StringAttribute()
    public_network_access_enabled = BooleanAttribute()
    queue_encryption_key_type = StringAttribute()
    resource_group_name = StringAttribute()
    secondary_access_key = StringAttribute()
    secondary_blob_connection_string = StringAttribute()
    secondary_blob_endpoint = StringAttribute()
    secondary_blob_host = StringAttribute()
    secondary_blob_internet_endpoint = StringAttribute()
    secondary_blob_internet_host = StringAttribute()
    secondary_blob_microsoft_endpoint = StringAttribute()
    secondary_blob_microsoft_host = StringAttribute()
    secondary_connection_string = StringAttribute()
    secondary_dfs_endpoint = StringAttribute()
    secondary_dfs_host = StringAttribute()
    secondary_dfs_internet_endpoint = StringAttribute()
    secondary_dfs_internet_host = StringAttribute()
    secondary_dfs_microsoft_endpoint = StringAttribute()
    secondary_dfs_microsoft_host = StringAttribute()
    secondary_file_endpoint = StringAttribute()
    secondary_file_host = StringAttribute()
    secondary_file_internet_endpoint = StringAttribute()
    secondary_file_internet_host = StringAttribute()
    secondary_file_microsoft_endpoint = StringAttribute()
    secondary_file_microsoft_host = StringAttribute()
    secondary_location = StringAttribute()
    secondary_queue_endpoint = StringAttribute()
    secondary_queue_host = StringAttribute()
    secondary_queue_microsoft_endpoint = StringAttribute()
    secondary_queue_microsoft_host = StringAttribute()
    secondary_table_endpoint = StringAttribute()
    secondary_table_host = StringAttribute()
    secondary_table_microsoft_endpoint = StringAttribute()
    secondary_table_microsoft_host = StringAttribute()
    secondary_web_endpoint = StringAttribute()
    secondary_web_host = StringAttribute()
    secondary_web_internet_endpoint = StringAttribute()
    secondary_web_internet_host = StringAttribute()
    secondary_web_microsoft_endpoint = StringAttribute()
    secondary_web_microsoft_host = StringAttribute()
    sftp_enabled = BooleanAttribute()
    shared_access_key_enabled = BooleanAttribute()
    table_encryption_key_type = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        account_replication_type: str,
        account_tier: str,
        location: str,
        name: str,
        resource_group_name: str,
        access_tier: str | None = None,
        account_kind: str | None = None,
        allow_nested_items_to_be_public: bool | None = None,
        allowed_copy_scope: str | None = None,
        cross_tenant_replication_enabled: bool | None = None,
        default_to_oauth_authentication: bool | None = None,
        dns_endpoint_type: str | None = None,
        edge_zone: str | None = None,
        https_traffic_only_enabled: bool | None = None,
        infrastructure_encryption_enabled: bool | None = None,
        is_hns_enabled: bool | None = None,
        large_file_share_enabled: bool | None = None,
        local_user_enabled: bool | None = None,
        min_tls_version: str | None = None,
        nfsv3_enabled: bool | None = None,
        provisioned_billing_model_version: str | None = None,
        public_network_access_enabled: bool | None = None,
        queue_encryption_key_type: str | None = None,
        sftp_enabled: bool | None = None,
        shared_access_key_enabled: bool | None = None,
        table_encryption_key_type: str | None = None,
        tags: Mapping[str, str] | None = None,
        azure_files_authentication: AzureFilesAuthentication | None = None,
        blob_properties: BlobProperties | None = None,
        custom_domain: CustomDomain | None = None,
        customer_managed_key: CustomerManagedKey | None = None,
        identity: Identity | None = None,
        immutability_policy: ImmutabilityPolicy | None = None,
        network_rules: NetworkRules | None = None,
        routing: Routing | None = None,
        sas_policy: SasPolicy | None = None,
        share_properties: ShareProperties | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "account_replication_type": account_replication_type,
                "account_tier": account_tier,
                "location": location,
                "name": name,
                "resource_group_name": resource_group_name,
                "access_tier": access_tier,
                "account_kind": account_kind,
                "allow_nested_items_to_be_public": allow_nested_items_to_be_public,
                "allowed_copy_scope": allowed_copy_scope,
                "cross_tenant_replication_enabled": cross_tenant_replication_enabled,
                "default_to_oauth_authentication": default_to_oauth_authentication,
                "dns_endpoint_type": dns_endpoint_type,
                "edge_zone": edge_zone,
                "https_traffic_only_enabled": https_traffic_only_enabled,
                "infrastructure_encryption_enabled": infrastructure_encryption_enabled,
                "is_hns_enabled": is_hns_enabled,
                "large_file_share_enabled": large_file_share_enabled,
                "local_user_enabled": local_user_enabled,
                "min_tls_version": min_tls_version,
                "nfsv3_enabled": nfsv3_enabled,
                "provisioned_billing_model_version": provisioned_billing_model_version,
                "public_network_access_enabled": public_network_access_enabled,
                "queue_encryption_key_type": queue_encryption_key_type,
                "sftp_enabled": sftp_enabled,
                "shared_access_key_enabled": shared_access_key_enabled,
                "table_encryption_key_type": table_encryption_key_type,
                "tags": tags,
                "azure_files_authentication": azure_files_authentication,
                "blob_properties": blob_properties,
                "custom_domain": custom_domain,
                "customer_managed_key": customer_managed_key,
                "identity": identity,
                "immutability_policy": immutability_policy,
                "network_rules": network_rules,
                "routing": routing,
                "sas_policy": sas_policy,
                "share_properties": share_properties,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
