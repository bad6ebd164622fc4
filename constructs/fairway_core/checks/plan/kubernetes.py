"""Rules on what a plan would do to a Kubernetes cluster: who reaches it, and what ends in it."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from fairway_core.checks.blocks import at, listed
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.plan.resource_changes import NODE_POOL, changed
from fairway_core.findings import Severity
from fairway_core.public_ranges import seen_outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject

_CLUSTER = "azurerm_kubernetes_cluster"
_RANGES = ("api_server_access_profile", "authorized_ip_ranges")
# Attributes for whose change AKS makes nodes anew, one after another.
_VERSIONS = {_CLUSTER: "kubernetes_version", NODE_POOL: "orchestrator_version"}


def _clusters(subject: PlanSubject) -> Iterator[Occurrence]:
    """Clusters that are made or changed: `address`, `before`, `after`, and what is `unknown`."""
    for each in subject.changes:
        change = each["change"]
        if each["type"] == _CLUSTER and change.get("after") and "no-op" not in change["actions"]:
            yield (
                (each["address"],),
                {
                    "address": each["address"],
                    "before": change.get("before") or {},
                    "after": change["after"],
                    "unknown": _has_unknown(at(change.get("after_unknown"), _RANGES)),
                },
            )


@check("api-server-opened", Severity.WARNING, Subject.PLAN, at=_clusters)
def api_server_opened(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any], *, unknown: bool
) -> Iterator[Fault]:
    """A Kubernetes API server that more addresses reach than before, or with local accounts.

    Wrong:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change:
              actions: [update]
              before: {local_account_disabled: true, private_cluster_enabled: true}
              after: {local_account_disabled: true, private_cluster_enabled: false}

    Right:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change:
              actions: [update]
              before: {local_account_disabled: true, private_cluster_enabled: true, tags: {}}
              after: {local_account_disabled: true, private_cluster_enabled: true, tags: {a: b}}
    """
    if not after.get("local_account_disabled") and (
        not before or before.get("local_account_disabled")
    ):
        yield Fault(
            f"`{address}` would have local accounts, whose credentials are in Terraform's state",
            "local_account_disabled = true",
        )
    if after.get("private_cluster_enabled"):
        return
    old, new = _ranges(before), _ranges(after)
    was_open = bool(before) and not before.get("private_cluster_enabled")
    # The address of a NAT gateway that is made at the same time is known only afterwards.
    if not new and not unknown and not (was_open and not old):
        yield Fault(
            f"the API server of `{address}` would be open to every address",
            "keep what creates `api_server:` in the environment file",
        )
    # What was open to all before is narrowed by any range.
    added = [] if was_open and not old else sorted(filter(_is_outside, new - old))
    if added:
        yield Fault(
            f"the API server of `{address}` would admit {', '.join(added)}",
            "name the ranges that you work from",
        )


def _ranges(cluster: Mapping[str, Any]) -> frozenset[str]:
    found = listed(at(cluster, _RANGES))
    return frozenset(str(each) for each in found if each is not None)


def _has_unknown(mask: object) -> bool:
    return mask is True or True in listed(mask)


def _is_outside(range_: str) -> bool:
    try:
        return bool(seen_outside([IPv4Network(range_, strict=False)]))
    except ValueError:
        return True


@check("upgraded-nodes", Severity.WARNING, Subject.PLAN, at=changed(_CLUSTER, NODE_POOL))
def upgraded_nodes(
    address: str,
    type: str,  # noqa: A002
    actions: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    reason: str = "",  # noqa: ARG001
) -> Iterator[Fault]:
    """Another version of Kubernetes: AKS replaces one node after another, and ends what runs there.

    Wrong:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change:
              actions: [update]
              before: {kubernetes_version: "1.33"}
              after: {kubernetes_version: "1.34"}

    Right:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change:
              actions: [update]
              before: {kubernetes_version: "1.34", tags: {}}
              after: {kubernetes_version: "1.34", tags: {a: b}}
    """
    old, new = before.get(_VERSIONS[type]), after.get(_VERSIONS[type])
    if actions == ["update"] and old and new and old != new:
        yield Fault(
            f"the nodes of `{address}` would be replaced one by one, for Kubernetes {new} "
            f"in place of {old}: what runs on each ends",
            "apply it when nothing runs, or when jobs can start again from their checkpoints",
        )


@check("lost-cluster", Severity.WARNING, Subject.PLAN, at=changed(_CLUSTER))
def lost_cluster(
    address: str,
    type: str,  # noqa: A002, ARG001
    actions: Sequence[str],
    before: Mapping[str, Any],  # noqa: ARG001
    after: Mapping[str, Any],  # noqa: ARG001
    reason: str = "",
) -> Iterator[Fault]:
    """A Kubernetes cluster that is deleted or recreated: all that runs in it ends.

    Wrong:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change:
              actions: [delete, create]
              before: {name: a}
              after: {name: b}
              replace_paths: [[name]]

    Right:
        resource_changes:
          - address: azurerm_kubernetes_cluster.kubernetes
            type: azurerm_kubernetes_cluster
            change: {actions: [update], before: {sku_tier: Free}, after: {sku_tier: Standard}}
    """
    if "delete" in actions:
        what = "destroyed and recreated" if "create" in actions else "destroyed"
        why = f", as {reason}" if reason else ""
        yield Fault(
            f"`{address}` would be {what}{why}: every job in the cluster ends, and its "
            "queues are lost",
            "apply it when nothing runs or waits; file systems keep their data",
        )
