"""Resource azurerm_kubernetes_cluster_extension of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, ObjectAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Plan(Block):
    """The block `plan`."""

    name: str
    product: str
    publisher: str
    promotion_code: str | None = None
    version: str | None = None


class KubernetesClusterExtension(Resource):
    """The resource azurerm_kubernetes_cluster_extension."""

    TYPE = "azurerm_kubernetes_cluster_extension"

    aks_assigned_identity = ObjectAttribute()
    cluster_id = StringAttribute()
    configuration_protected_settings = MapAttribute()
    configuration_settings = MapAttribute()
    current_version = StringAttribute()
    extension_type = StringAttribute()
    id = StringAttribute()
    name = StringAttribute()
    release_namespace = StringAttribute()
    release_train = StringAttribute()
    target_namespace = StringAttribute()
    version = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_id: str,
        extension_type: str,
        name: str,
        configuration_protected_settings: Mapping[str, str] | None = None,
        configuration_settings: Mapping[str, str] | None = None,
        release_namespace: str | None = None,
        release_train: str | None = None,
        target_namespace: str | None = None,
        version: str | None = None,
        plan: Plan | None = None,
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
                "extension_type": extension_type,
                "name": name,
                "configuration_protected_settings": configuration_protected_settings,
                "configuration_settings": configuration_settings,
                "release_namespace": release_namespace,
                "release_train": release_train,
                "target_namespace": target_namespace,
                "version": version,
                "plan": plan,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
