"""Resource azurerm_kubernetes_flux_configuration of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class BlobStorageManagedIdentity(Block):
    """The block `blob_storage.managed_identity`."""

    client_id: str


class BlobStorageServicePrincipal(Block):
    """The block `blob_storage.service_principal`."""

    client_id: str
    tenant_id: str
    client_certificate_base64: str | None = None
    client_certificate_password: str | None = None
    client_certificate_send_chain: bool | None = None
    client_secret: str | None = None


class BlobStorage(Block):
    """The block `blob_storage`."""

    container_id: str
    account_key: str | None = None
    local_auth_reference: str | None = None
    sas_token: str | None = None
    sync_interval_in_seconds: float | None = None
    timeout_in_seconds: float | None = None
    managed_identity: BlobStorageManagedIdentity | None = None
    service_principal: BlobStorageServicePrincipal | None = None


class Bucket(Block):
    """The block `bucket`."""

    bucket_name: str
    url: str
    access_key: str | None = None
    local_auth_reference: str | None = None
    secret_key_base64: str | None = None
    sync_interval_in_seconds: float | None = None
    timeout_in_seconds: float | None = None
    tls_enabled: bool | None = None


class GitRepository(Block):
    """The block `git_repository`."""

    reference_type: str
    reference_value: str
    url: str
    https_ca_cert_base64: str | None = None
    https_key_base64: str | None = None
    https_user: str | None = None
    local_auth_reference: str | None = None
    provider: str | None = None
    ssh_known_hosts_base64: str | None = None
    ssh_private_key_base64: str | None = None
    sync_interval_in_seconds: float | None = None
    timeout_in_seconds: float | None = None


class KustomizationsPostBuildSubstituteFrom(Block):
    """The block `kustomizations.post_build.substitute_from`."""

    kind: str
    name: str
    optional: bool | None = None


class KustomizationsPostBuild(Block):
    """The block `kustomizations.post_build`."""

    substitute: Mapping[str, str] | None = None
    substitute_from: Sequence[KustomizationsPostBuildSubstituteFrom] | None = None


class Kustomizations(Block):
    """The block `kustomizations`."""

    name: str
    depends_on: Sequence[str] | None = None
    garbage_collection_enabled: bool | None = None
    path: str | None = None
    recreating_enabled: bool | None = None
    retry_interval_in_seconds: float | None = None
    sync_interval_in_seconds: float | None = None
    timeout_in_seconds: float | None = None
    wait: bool | None = None
    post_build: KustomizationsPostBuild | None = None


class KubernetesFluxConfiguration(Resource):
    """The resource azurerm_kubernetes_flux_configuration."""

    TYPE = "azurerm_kubernetes_flux_configuration"

    cluster_id = StringAttribute()
    continuous_reconciliation_enabled = BooleanAttribute()
    id = StringAttribute()
    name = StringAttribute()
    namespace = StringAttribute()
    scope_ = StringAttribute("scope")

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_id: str,
        name: str,
        namespace: str,
        kustomizations: Sequence[Kustomizations],
        continuous_reconciliation_enabled: bool | None = None,
        scope_: str | None = None,
        blob_storage: BlobStorage | None = None,
        bucket: Bucket | None = None,
        git_repository: GitRepository | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "cluster_id": cluster_id,
                "name": name,
                "namespace": namespace,
                "kustomizations": kustomizations,
                "continuous_reconciliation_enabled": continuous_reconciliation_enabled,
                "scope": scope_,
                "blob_storage": blob_storage,
                "bucket": bucket,
                "git_repository": git_repository,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
