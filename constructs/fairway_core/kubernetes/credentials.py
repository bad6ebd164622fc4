"""Commands that configure kubectl for an AKS cluster: each user runs them once."""

from __future__ import annotations

import shlex

from fairway_core.light_fields import FieldError
from fairway_core.resource_ids import parts_of


def credentials(name: str, group: str, subscription: str = "") -> str:
    """Returns the commands, which need no rights in the cluster except to find it.

    >>> credentials("lab-aks", "lab-rg-compute").partition(" && ")[0]
    'az aks get-credentials --name lab-aks --resource-group lab-rg-compute --overwrite-existing'
    """
    where = f" --subscription {subscription}" if subscription else ""
    # kubectl then signs in like `az`, only to this cluster: `az` names a context after its cluster.
    return (
        f"az aks get-credentials --name {name} --resource-group {group}{where} "
        # It would ask where a cluster of this name was there before.
        "--overwrite-existing "
        f"&& kubelogin convert-kubeconfig --context {name} --login azurecli"
    )


def credentials_of(cluster: str) -> str:
    """Returns the commands for the cluster with that resource id, or "" for invalid text."""
    try:
        parts = parts_of("AKS cluster", cluster)
    except FieldError:
        return ""
    words = (parts[each] for each in ("name", "resource_group", "subscription"))
    return credentials(*map(shlex.quote, words))
