"""Configuration of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.blocks import Block
from fairway_constructs.cdk import Construct, Provider


class FeaturesApiManagement(Block):
    """The block `features.api_management`."""

    purge_soft_delete_on_destroy: bool | None = None
    recover_soft_deleted: bool | None = None


class FeaturesAppConfiguration(Block):
    """The block `features.app_configuration`."""

    purge_soft_delete_on_destroy: bool | None = None
    recover_soft_deleted: bool | None = None


class FeaturesApplicationInsights(Block):
    """The block `features.application_insights`."""

    disable_generated_rule: bool | None = None


class FeaturesCognitiveAccount(Block):
    """The block `features.cognitive_account`."""

    purge_soft_delete_on_destroy: bool | None = None


class FeaturesDatabricksWorkspace(Block):
    """The block `features.databricks_workspace`."""

    force_delete: bool | None = None


class FeaturesEnhancedValidation(Block):
    """The block `features.enhanced_validation`."""

    locations: bool | None = None
    preflight_enabled: bool | None = None
    preflight_location_fallback: str | None = None
    resource_providers: bool | None = None


class FeaturesKeyVault(Block):
    """The block `features.key_vault`."""

    purge_soft_delete_on_destroy: bool | None = None
    purge_soft_deleted_certificates_on_destroy: bool | None = None
    purge_soft_deleted_hardware_security_module_keys_on_destroy: bool | None = None
    purge_soft_deleted_hardware_security_modules_on_destroy: bool | None = None
    purge_soft_deleted_keys_on_destroy: bool | None = None
    purge_soft_deleted_secrets_on_destroy: bool | None = None
    recover_soft_deleted_certificates: bool | None = None
    recover_soft_deleted_hardware_security_module_keys: bool | None = None
    recover_soft_deleted_key_vaults: bool | None = None
    recover_soft_deleted_keys: bool | None = None
    recover_soft_deleted_secrets: bool | None = None


class FeaturesLogAnalyticsWorkspace(Block):
    """The block `features.log_analytics_workspace`."""

    permanently_delete_on_destroy: bool | None = None


class FeaturesMachineLearning(Block):
    """The block `features.machine_learning`."""

    purge_soft_deleted_workspace_on_destroy: bool | None = None


class FeaturesManagedDisk(Block):
    """The block `features.managed_disk`."""

    expand_without_downtime: bool | None = None


class FeaturesNetapp(Block):
    """The block `features.netapp`."""

    delete_backups_on_backup_vault_destroy: bool | None = None
    prevent_volume_destruction: bool | None = None


class FeaturesPostgresqlFlexibleServer(Block):
    """The block `features.postgresql_flexible_server`."""

    restart_server_on_configuration_value_change: bool | None = None


class FeaturesRecoveryService(Block):
    """The block `features.recovery_service`."""

    purge_protected_items_from_vault_on_destroy: bool | None = None
    vm_backup_stop_protection_and_retain_data_on_destroy: bool | None = None
    vm_backup_suspend_protection_and_retain_data_on_destroy: bool | None = None


class FeaturesRecoveryServicesVaults(Block):
    """The block `features.recovery_services_vaults`."""

    recover_soft_deleted_backup_protected_vm: bool | None = None


class FeaturesResourceGroup(Block):
    """The block `features.resource_group`."""

    prevent_deletion_if_contains_resources: bool | None = None


class FeaturesServicebus(Block):
    """The block `features.servicebus`."""

    auto_delete_subscription_default_rule: bool | None = None


class FeaturesStorage(Block):
    """The block `features.storage`."""

    data_plane_available: bool | None = None


class FeaturesSubscription(Block):
    """The block `features.subscription`."""

    prevent_cancellation_on_destroy: bool | None = None


class FeaturesTemplateDeployment(Block):
    """The block `features.template_deployment`."""

    delete_nested_items_during_deletion: bool


class FeaturesVirtualMachine(Block):
    """The block `features.virtual_machine`."""

    delete_os_disk_on_deletion: bool | None = None
    detach_implicit_data_disk_on_deletion: bool | None = None
    skip_shutdown_and_force_delete: bool | None = None


class FeaturesVirtualMachineScaleSet(Block):
    """The block `features.virtual_machine_scale_set`."""

    force_delete: bool | None = None
    reimage_on_manual_upgrade: bool | None = None
    roll_instances_when_required: bool | None = None
    scale_to_zero_before_deletion: bool | None = None


class Features(Block):
    """The block `features`."""

    persist_id_on_create_before_polling_for_completion: bool | None = None
    skip_import_check_on_create_and_allow_overwriting_existing_resources: bool | None = None
    api_management: FeaturesApiManagement | None = None
    app_configuration: FeaturesAppConfiguration | None = None
    application_insights: FeaturesApplicationInsights | None = None
    cognitive_account: FeaturesCognitiveAccount | None = None
    databricks_workspace: FeaturesDatabricksWorkspace | None = None
    enhanced_validation: FeaturesEnhancedValidation | None = None
    key_vault: FeaturesKeyVault | None = None
    log_analytics_workspace: FeaturesLogAnalyticsWorkspace | None = None
    machine_learning: FeaturesMachineLearning | None = None
    managed_disk: FeaturesManagedDisk | None = None
    netapp: FeaturesNetapp | None = None
    postgresql_flexible_server: FeaturesPostgresqlFlexibleServer | None = None
    recovery_service: FeaturesRecoveryService | None = None
    recovery_services_vaults: FeaturesRecoveryServicesVaults | None = None
    resource_group: FeaturesResourceGroup | None = None
    servicebus: FeaturesServicebus | None = None
    storage: FeaturesStorage | None = None
    subscription: FeaturesSubscription | None = None
    template_deployment: FeaturesTemplateDeployment | None = None
    virtual_machine: FeaturesVirtualMachine | None = None
    virtual_machine_scale_set: FeaturesVirtualMachineScaleSet | None = None


class AzurermProvider(Provider):
    """The configuration of the provider hashicorp/azurerm."""

    def __init__(
        self,
        scope: Construct,
        id: str = "azurerm",
        *,
        ado_pipeline_service_connection_id: str | None = None,
        auxiliary_tenant_ids: Sequence[str] | None = None,
        client_certificate: str | None = None,
        client_certificate_password: str | None = None,
        client_certificate_path: str | None = None,
        client_id: str | None = None,
        client_id_file_path: str | None = None,
        client_secret: str | None = None,
        client_secret_file_path: str | None = None,
        disable_correlation_request_id: bool | None = None,
        disable_terraform_partner_id: bool | None = None,
        environment: str | None = None,
        metadata_host: str | None = None,
        msi_api_version: str | None = None,
        msi_endpoint: str | None = None,
        oidc_request_token: str | None = None,
        oidc_request_url: str | None = None,
        oidc_token: str | None = None,
        oidc_token_file_path: str | None = None,
        partner_id: str | None = None,
        resource_provider_registrations: str | None = None,
        resource_providers_to_register: Sequence[str] | None = None,
        storage_use_azuread: bool | None = None,
        subscription_id: str | None = None,
        tenant_id: str | None = None,
        use_aks_workload_identity: bool | None = None,
        use_cli: bool | None = None,
        use_msi: bool | None = None,
        use_oidc: bool | None = None,
        features: Features = Features(),
        alias: str | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "ado_pipeline_service_connection_id": ado_pipeline_service_connection_id,
                "auxiliary_tenant_ids": auxiliary_tenant_ids,
                "client_certificate": client_certificate,
                "client_certificate_password": client_certificate_password,
                "client_certificate_path": client_certificate_path,
                "client_id": client_id,
                "client_id_file_path": client_id_file_path,
                "client_secret": client_secret,
                "client_secret_file_path": client_secret_file_path,
                "disable_correlation_request_id": disable_correlation_request_id,
                "disable_terraform_partner_id": disable_terraform_partner_id,
                "environment": environment,
                "metadata_host": metadata_host,
                "msi_api_version": msi_api_version,
                "msi_endpoint": msi_endpoint,
                "oidc_request_token": oidc_request_token,
                "oidc_request_url": oidc_request_url,
                "oidc_token": oidc_token,
                "oidc_token_file_path": oidc_token_file_path,
                "partner_id": partner_id,
                "resource_provider_registrations": resource_provider_registrations,
                "resource_providers_to_register": resource_providers_to_register,
                "storage_use_azuread": storage_use_azuread,
                "subscription_id": subscription_id,
                "tenant_id": tenant_id,
                "use_aks_workload_identity": use_aks_workload_identity,
                "use_cli": use_cli,
                "use_msi": use_msi,
                "use_oidc": use_oidc,
                "features": features,
            },
            alias=alias,
        )
