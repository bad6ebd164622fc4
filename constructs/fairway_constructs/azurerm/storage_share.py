"""Resource azurerm_storage_share of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import MapAttribute, NumberAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class AclAccessPolicy(Block):
    """The block `acl.access_policy`."""

    permissions: str
    expiry: str | None = None
    start: str | None = None


class Acl(Block):
    """The block `acl`."""

    id: str
    access_policy: Sequence[AclAccessPolicy] | None = None


class StorageShare(Resource):
    """The resource azurerm_storage_share."""

    TYPE = "azurerm_storage_share"

    access_tier = StringAttribute()
    enabled_protocol = StringAttribute()
    id = StringAttribute()
    metadata = MapAttribute()
    name = StringAttribute()
    quota = NumberAttribute()
    rbac_scope_id = StringAttribute()
    storage_account_id = StringAttribute()
    url = StringAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        quota: float,
        storage_account_id: str,
        access_tier: str | None = None,
        enabled_protocol: str | None = None,
        metadata: Mapping[str, str] | None = None,
        acl: Sequence[Acl] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "quota": quota,
                "storage_account_id": storage_account_id,
                "access_tier": access_tier,
                "enabled_protocol": enabled_protocol,
                "metadata": metadata,
                "acl": acl,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
