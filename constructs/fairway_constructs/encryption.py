"""A customer-managed key for a service that encrypts its data, and the identity that may use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_constructs.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_constructs.vault import Vault


@dataclass(frozen=True, kw_only=True)
class CustomerKey:
    """A key, and the identity by which a service reaches it once all of `ready` is made.

    `url` names no version: the service follows the key when it rotates.
    """

    url: str
    identity_id: str
    ready: Sequence[ITerraformDependable]


def customer_key(scope: Construct, name: str, *, vault: Vault) -> CustomerKey:
    """A key in the vault, and an identity that may wrap and unwrap with it and nothing else.

    >>> key = customer_key(stack, "storage", vault=vault)  # doctest: +SKIP
    >>> Storage(stack, containers=["outputs"], customer_managed_key=key)  # doctest: +SKIP
    """
    key = vault.key(name)
    identity = Identity(scope, f"{name}-key")
    key.grant_encryption(identity)
    return CustomerKey(
        url=key.url, identity_id=identity.id, ready=[key.ready, *identity.assignments]
    )
