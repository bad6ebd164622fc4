"""A key vault: secrets for jobs, and keys that encrypt the environment's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.key_vault import KeyVault, NetworkAcls
from fairway_constructs.identity import Identity
from fairway_constructs.network_access import public_ranges
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.scope import azure_scope_of, client_config, unique_name
from fairway_constructs.service import Service
from fairway_constructs.terraform_data import deploy_template
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_constructs.identity import Grantee
    from fairway_core.environment.values import KeyName


def key_vault(
    scope: Construct,
    id: str,
    *,
    kind: str,
    kept_days: int,
    ranges: Sequence[str] = (),
    bypass: Literal["AzureServices", "None"] = "None",
    sku: Literal["standard", "premium"] = "standard",
    for_machines: bool = False,
) -> KeyVault:
    """Creates a key vault with role-based access, where nothing can be purged for `kept_days`.

    `kind` is its row in names.toml. From outside it is reached only from `ranges`, and by Azure's
    own services if `bypass` says so. With `for_machines` these copy its secrets to VMs that they
    create, which requires public access.
    """
    azure = azure_scope_of(scope)
    return KeyVault(
        scope,
        id,
        name=unique_name(scope, kind),
        **azure.common,
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
        lifecycle=lifecycle_of(scope),
    )


# Deleted secrets can be recovered for as long, and nobody can purge them sooner.
_KEPT_DAYS = 90

# All older versions retire on 2027-02-27.
# https://learn.microsoft.com/azure/key-vault/general/migrate-api-version
_KEY_API = "2026-02-01"
_KEY_BITS = 3072
# A key gets a new version after a year; users that name no version follow automatically.
_ROTATED_AFTER = "P1Y"


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key: `url` names no version, and works only once `ready` exists."""

    url: str
    id: str
    ready: ITerraformDependable

    def grant_encryption(self, grantee: Grantee) -> None:
        """Lets a service encrypt its own data with this key."""
        grantee.identity.grant(
            "vault",
            "Key Vault Crypto Service Encryption User",
            on=self.id,
            reason="Encrypts data with this key",
            depends_on=[self.ready],
        )


@checked
@dataclass(frozen=True, kw_only=True)
class CustomerManagedKey:
    """A key, and the identity by which a service accesses it once all of `ready` exist.

    `url` names no version: the service follows the key's rotation.

    >>> key = vault.customer_managed_key("outputs")
    >>> Storage(stack, "closed", containers=["outputs"], customer_managed_key=key)
    """

    url: str
    identity_id: str
    ready: Sequence[ITerraformDependable]


class IVault(Service):
    """A new or existing key vault; `url` is the address of its secrets and keys.

    >>> vault.grant_read(identity)
    """

    LINKS: ClassVar = {"": "vault"}
    USUAL_ID = "vault"

    url: str

    def grant_read(self, grantee: Grantee) -> None:
        """Lets the grantee only read secrets."""
        does = "read the secrets that jobs name"
        self._grant(grantee, "read_secrets", "Key Vault Secrets User", does)


class Vault(IVault):
    """A key vault with role-based access and purge protection.

    It is reached by private endpoints, and from outside only by the public ranges in `allowed`, and
    by `egress_address`, if nodes have no private endpoint. In a stack with `protect` Azure does not
    delete it, unless `lock` says otherwise.

    >>> vault = Vault(stack)
    >>> key = vault.customer_managed_key("storage")
    >>> Storage(stack, containers=["outputs"], customer_managed_key=key)
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "vault",
        *,
        sku: Literal["standard", "premium"] = "standard",
        allowed: Sequence[IPv4Network | str] = (),
        egress_address: str = "",
        lock: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._key_type = "RSA-HSM" if sku == "premium" else "RSA"
        self.vault = key_vault(
            self,
            "vault",
            kind="key_vault",
            kept_days=_KEPT_DAYS,
            ranges=public_ranges(allowed, egress_address),
            # Storage accesses its key as one of Azure's own services.
            bypass="AzureServices",
            sku=sku,
        )
        self.id = self.vault.id
        self.url = self.vault.vault_uri
        delete_lock(self, id="vault", on=self.vault, lock=lock)

    @classmethod
    def from_id(cls, scope: Construct, id: str, vault_id: str) -> IVault:
        """Returns an existing vault: nothing is created, and its network rules stay."""
        found = IVault(scope, id)
        found.id = vault_id
        name = parts_of("key vault", vault_id)["name"].lower()
        found.url = f"https://{name}.vault.azure.net/"
        return found

    def customer_managed_key(self, name: KeyName) -> CustomerManagedKey:
        """Creates a key, and an identity that may only wrap and unwrap with it."""
        key = self.key(name)
        identity = Identity(self._beside, f"{name}-key")
        key.grant_encryption(identity)
        return CustomerManagedKey(
            url=key.url, identity_id=identity.id, ready=[key.ready, *identity.assignments]
        )

    def key(self, name: KeyName) -> Key:
        """Creates a key for wrapping other keys, which rotates by itself.

        It is created through the management plane: the user who runs Terraform needs neither a role
        on the keys nor access to the vault's network. Azure creates it once and never again, so
        that no later deployment can replace it.
        """
        rotate = {"trigger": {"timeAfterCreate": _ROTATED_AFTER}, "action": {"type": "rotate"}}
        deployment = deploy_template(
            self,
            f"{name}-key-deployment",
            f"key-{name}",
            {
                "type": "Microsoft.KeyVault/vaults/keys",
                "apiVersion": _KEY_API,
                "name": "[format('{0}/{1}', parameters('vault'), parameters('key'))]",
                "properties": {
                    "kty": self._key_type,
                    "keySize": _KEY_BITS,
                    "keyOps": ["wrapKey", "unwrapKey"],
                    "rotationPolicy": {"lifetimeActions": [rotate]},
                },
            },
            {"vault": self.vault.name, "key": name},
        )
        return Key(url=f"{self.url}keys/{name}", id=f"{self.id}/keys/{name}", ready=deployment)
