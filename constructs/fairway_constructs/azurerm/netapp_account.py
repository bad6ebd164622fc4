"""Resource azurerm_netapp_account of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ActiveDirectory(Block):
    """The block `active_directory`."""

    dns_servers: Sequence[str]
    domain: str
    password: str
    smb_server_name: str
    username: str
    aes_encryption_enabled: bool | None = None
    kerberos_ad_name: str | None = None
    kerberos_kdc_ip: str | None = None
    ldap_over_tls_enabled: bool | None = None
    ldap_signing_enabled: bool | None = None
    local_nfs_users_with_ldap_allowed: bool | None = None
    organizational_unit: str | None = None
    server_root_ca_certificate: str | None = None
    site_name: str | None = None


class Identity(Block):
    """The block `identity`."""

    type: str
    identity_ids: Sequence[str] | None = None


class NetappAccount(Resource):
    """The resource azurerm_netapp_account."""

    TYPE = "azurerm_netapp_account"

    id = StringAttribute()
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
        tags: Mapping[str, str] | None = None,
        active_directory: ActiveDirectory | None = None,
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
                "tags": tags,
                "active_directory": active_directory,
                "identity": identity,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
