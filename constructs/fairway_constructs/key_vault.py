"""What all key vaults of an environment have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fairway_constructs.azurerm.key_vault import KeyVault, NetworkAcls
from fairway_constructs.protection import kept
from fairway_constructs.scope import place_of
from fairway_constructs.unique_name import client_config, unique_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct


def key_vault(
    scope: Construct,
    id: str,  # noqa: A002
    *,
    kind: str,
    kept_days: int,
    ranges: Sequence[str] = (),
    bypass: Literal["AzureServices", "None"] = "None",
    sku: Literal["standard", "premium"] = "standard",
    for_machines: bool = False,
) -> KeyVault:
    """A vault that goes by roles, and of which nothing can be purged for `kept_days`.

    `kind` is its row in names.toml. From outside it is reached from `ranges` alone, and by Azure's
    own services where `bypass` says so. With `for_machines` these put its secrets on VMs that they
    make, and need its public side for that.
    """
    place = place_of(scope)
    return KeyVault(
        scope,
        id,
        name=unique_name(scope, kind),
        **place.common,
        tenant_id=client_config(scope).tenant_id,
        sku_name=sku,
        rbac_authorization_enabled=True,
        purge_protection_enabled=True,
        soft_delete_retention_days=kept_days,
        enabled_for_deployment=for_machines or None,
        enabled_for_template_deployment=for_machines or None,
        public_network_access_enabled=for_machines or bool(ranges),
        network_acls=NetworkAcls(
            default_action="Deny", bypass=bypass, ip_rules=list(ranges) or None
        ),
        lifecycle=kept(scope),
    )
