"""Commands that make an AKS cluster known to kubectl: a person types them once."""

from __future__ import annotations

import shlex

from fairway_core.documents import FieldError
from fairway_core.resource_ids import parts_of


def credentials(name: str, group: str, subscription: str = "") -> str:
    """Returns the commands, which need no rights in the cluster but to find it.

    >>> credentials("lab-aks", "lab-rg-compute").partition(" && ")[0]
    'az aks get-credentials --name lab-aks --resource-group lab-rg-compute'
    """
    where = f" --subscription {subscription}" if subscription else ""
    # kubectl then signs in as `az` has, to this cluster alone: `az` names a context as its cluster.
    return (
        f"az aks get-credentials --name {name} --resource-group {group}{where} "
        f"&& kubelogin convert-kubeconfig --context {name} --login azurecli"
    )


def credentials_of(cluster: str) -> str:
    """Returns the commands for the cluster of that resource id; "" for text that is no such id."""
    try:
        parts = parts_of("AKS cluster", cluster)
    except FieldError:
        return ""
    words = (parts[each] for each in ("name", "resource_group", "subscription"))
    return credentials(*map(shlex.quote, words))
