"""Resource azurerm_container_registry of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import (
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    ObjectAttribute,
    StringAttribute,
)
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class Encryption(ObjectValue):
    """An object in `encryption`."""

    identity_client_id: str | None = None
    key_vault_key_id: str | None = None


class NetworkRuleSetIpRule(ObjectValue):
    """An object in `network_rule_set.ip_rule`."""

    action: str | None = None
    ip_range: str | None = None


class NetworkRuleSet(ObjectValue):
    """An object in `network_rule_set`."""

    default_action: str | None = None
    ip_rule: Sequence[NetworkRuleSetIpRule] | None = None


class Georeplications(Block):
    """The block `georeplications`."""

    global_endpoint_routing_enabled: bool
    location: str
    tags: Mapping[str, str] | None = None
    zone_redundancy_enabled: bool | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class ContainerRegistry(Resource):
    """The resource azurerm_container_registry."""

    TYPE = "azurerm_container_registry"

    admin_enabled = BooleanAttribute()
    admin_password = StringAttribute()
    admin_username = StringAttribute()
    anonymous_pull_enabled = BooleanAttribute()
    azuread_authentication_as_arm_policy_enabled = BooleanAttribute()
    data_endpoint_enabled = BooleanAttribute()
    data_endpoint_host_names = ListAttribute()
    encryption = ObjectAttribute()
    export_policy_enabled = BooleanAttribute()
    id = StringAttribute()
    location = StringAttribute()
    login_server = StringAttribute()
    name = StringAttribute()
    network_rule_bypass_for_tasks_enabled = BooleanAttribute()
    network_rule_bypass_option = StringAttribute()
    network_rule_set = ObjectAttribute()
    public_network_access_enabled = BooleanAttribute()
    quarantine_policy_enabled = BooleanAttribute()
    resource_group_name = StringAttribute()
    retention_policy_in_days = NumberAttribute()
    role_assignment_mode = StringAttribute()
    sku = StringAttribute()
    tags = MapAttribute()
    zone_redundancy_enabled = BooleanAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        location: str,
        name: str,
        resource_group_name: str,
        sku: str,
        admin_enabled: bool | None = None,
        anonymous_pull_enabled: bool | None = None,
        azuread_authentication_as_arm_policy_enabled: bool | None = None,
        data_endpoint_enabled: bool | None = None,
        encryption: Sequence[Encryption] | None = None,
        export_policy_enabled: bool | None = None,
        network_rule_bypass_for_tasks_enabled: bool | None = None,
        network_rule_bypass_option: str | None = None,
        network_rule_set: Sequence[NetworkRuleSet] | None = None,
        public_network_access_enabled: bool | None = None,
        quarantine_policy_enabled: bool | None = None,
        retention_policy_in_days: float | None = None,
        role_assignment_mode: str | None = None,
        tags: Mapping[str, str] | None = None,
        zone_redundancy_enabled: bool | None = None,
        georeplications: Sequence[Georeplications] | None = None,
        identity: Identity | None = None,
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
                "sku": sku,
                "admin_enabled": admin_enabled,
                "anonymous_pull_enabled": anonymous_pull_enabled,
                "azuread_authentication_as_arm_policy_enabled": azuread_authentication_as_arm_policy_enabled,
                "data_endpoint_enabled": data_endpoint_enabled,
                "encryption": encryption,
                "export_policy_enabled": export_policy_enabled,
                "network_rule_bypass_for_tasks_enabled": network_rule_bypass_for_tasks_enabled,
                "network_rule_bypass_option": network_rule_bypass_option,
                "network_rule_set": network_rule_set,
                "public_network_access_enabled": public_network_access_enabled,
                "quarantine_policy_enabled": quarantine_policy_enabled,
                "retention_policy_in_days": retention_policy_in_days,
                "role_assignment_mode": role_assignment_mode,
                "tags": tags,
                "zone_redundancy_enabled": zone_redundancy_enabled,
                "georeplications": georeplications,
                "identity": identity,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
