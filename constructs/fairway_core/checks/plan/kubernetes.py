"""Rules on what a plan would do to a Kubernetes cluster: access to it, and what ends in it."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.resource_change import NODE_POOL, changed, minor_version
from fairway_core.findings import Severity
from fairway_core.json_values import as_list, first_block, leaves, value_at
from fairway_core.public_ranges import internet_ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.resource_change import ResourceChange

_CLUSTER = "azurerm_kubernetes_cluster"
_RANGES = ("api_server_access_profile", "authorized_ip_ranges")
# Attributes of the system pool whose change makes the provider recreate it. Source: azurerm
# documentation, azurerm_kubernetes_cluster, temporary_name_for_rotation.
_ROTATED = (
    *("vm_size", "zones", "os_disk_type", "os_disk_size_gb", "os_sku", "max_pods"),
    *("only_critical_addons_enabled", "vnet_subnet_id"),
)
# Attributes whose change makes AKS recreate the nodes, one after another.
_VERSIONS = {_CLUSTER: "kubernetes_version", NODE_POOL: "orchestrator_version"}


@check("api-server-opened", Severity.WARNING, Subject.PLAN, select=changed(_CLUSTER))
def api_server_opened(change: ResourceChange) -> Iterator[Violation]:
    """A Kubernetes API server that more addresses reach than before, or with local accounts.

    Wrong:
        azurerm_kubernetes_cluster.kubernetes:
          actions: [update]
          before: {private_cluster_enabled: true}
          after: {private_cluster_enabled: false}

    Right:
        azurerm_kubernetes_cluster.kubernetes:
          {actions: [update], before: {sku_tier: Free}, after: {sku_tier: Standard}}
    """
    before, after = change.before, change.after
    if not after:
        return
    if not after.get("local_account_disabled") and (
        not before or before.get("local_account_disabled")
    ):
        yield Violation(
            f"`{change.address}` would have local accounts, whose credentials are in Terraform's "
            "state",
            "local_account_disabled = true",
        )
    if after.get("private_cluster_enabled"):
        return
    old, new = _ranges(before), _ranges(after)
    was_open = bool(before) and not before.get("private_cluster_enabled")
    # The address of a NAT gateway that the same plan creates is known only after apply.
    unknown = True in leaves(value_at(change.unknown, _RANGES))
    if not new and not unknown and not (was_open and not old):
        yield Violation(
            f"the API server of `{change.address}` would be open to every address",
            "keep what creates `api_server:` in the environment file",
        )
    # Any range narrows a server that was open to all.
    added = [] if was_open and not old else sorted(filter(_is_outside, new - old))
    if added:
        yield Violation(
            f"the API server of `{change.address}` would admit {', '.join(added)}",
            "name the ranges that you work from",
        )


def _ranges(cluster: Mapping[str, Any]) -> frozenset[str]:
    found = as_list(value_at(cluster, _RANGES))
    return frozenset(str(each) for each in found if each is not None)


def _is_outside(range_: str) -> bool:
    try:
        return bool(internet_ranges([IPv4Network(range_, strict=False)]))
    except ValueError:
        return True


@check("upgraded-nodes", Severity.WARNING, Subject.PLAN, select=changed(_CLUSTER, NODE_POOL))
def upgraded_nodes(change: ResourceChange) -> Iterator[Violation]:
    """Another version of Kubernetes: AKS replaces one node after another, and ends what runs there.

    Wrong:
        azurerm_kubernetes_cluster.kubernetes:
          actions: [update]
          before: {kubernetes_version: "1.33"}
          after: {kubernetes_version: "1.34"}

    Right:
        azurerm_kubernetes_cluster.kubernetes:
          {actions: [update], before: {sku_tier: Free}, after: {sku_tier: Standard}}
    """
    old, new = (side.get(_VERSIONS[change.type]) for side in (change.before, change.after))
    was, version = (minor_version(side) for side in (change.before, change.after))
    if not change.updates or not old or not new or old == new or (was or 0) > (version or 0):
        return
    hint = "apply it when nothing runs, or when jobs can start again from their checkpoints"
    if was and version and version > was + 1:
        hint += f"\nAzure skips no minor version that it still supports: first deploy 1.{was + 1}"
    yield Violation(
        f"the nodes of `{change.address}` would be replaced one by one, for Kubernetes {new} "
        f"in place of {old}: what runs on each ends",
        hint,
    )


@check("replaced-system-nodes", Severity.WARNING, Subject.PLAN, select=changed(_CLUSTER))
def replaced_system_nodes(change: ResourceChange) -> Iterator[Violation]:
    """Other nodes for the system of a Kubernetes cluster: what stands on them begins anew.

    The provider moves it to a second pool while it makes the first one again. Jobs go on; their
    head, the controllers of their runs and Kueue are away for minutes.

    Wrong:
        azurerm_kubernetes_cluster.kubernetes:
          actions: [update]
          before: {default_node_pool: [{vm_size: Standard_D4s_v6}]}
          after: {default_node_pool: [{vm_size: Standard_D8s_v6}]}

    Right:
        azurerm_kubernetes_cluster.kubernetes:
          actions: [update]
          before: {default_node_pool: [{vm_size: Standard_D4s_v6, node_count: 2}]}
          after: {default_node_pool: [{vm_size: Standard_D4s_v6, node_count: 3}]}
    """
    old, new = (
        first_block(side.get("default_node_pool")) for side in (change.before, change.after)
    )
    differ = [name for name in _ROTATED if new.get(name) is not None and old.get(name) != new[name]]
    if change.updates and differ:
        yield Violation(
            f"the system's nodes of `{change.address}` would be replaced, as "
            f"{', '.join(differ)} changes: jobs go on, and what directs them is away for minutes",
            "apply it when nothing starts",
        )


@check("lost-cluster", Severity.WARNING, Subject.PLAN, select=changed(_CLUSTER))
def lost_cluster(change: ResourceChange) -> Iterator[Violation]:
    """A Kubernetes cluster that is deleted or recreated: all that runs in it ends.

    Wrong:
        azurerm_kubernetes_cluster.kubernetes:
          {actions: [delete, create], before: {name: a}, after: {name: b}, replace_paths: [[name]]}

    Right:
        azurerm_kubernetes_cluster.kubernetes:
          {actions: [update], before: {sku_tier: Free}, after: {sku_tier: Standard}}
    """
    if change.goes:
        yield Violation(
            f"`{change.address}` would be {change.fate}{change.because}: every job in the cluster "
            "ends, and its queues are lost",
            "apply it when nothing runs or waits; file systems keep their data",
        )


@check("loosened-policy", Severity.WARNING, Subject.PLAN, select=changed("azurerm_storage_blob"))
def loosened_policy(change: ResourceChange) -> Iterator[Violation]:
    """A policy of what may run in a Kubernetes cluster that no longer refuses what it refused.

    A rule that only takes more, such as the tolerations of a pool that is added, counts too.

    Wrong:
        azurerm_storage_blob.manifests-namespace:
          actions: [delete, create]
          before:
            source_content: |
              kind: ValidatingAdmissionPolicy
              metadata: {name: jobs}
              spec: {validations: [{message: no nodeName, expression: a}]}
          after: {source_content: "{kind: ValidatingAdmissionPolicy, metadata: {name: jobs}}"}

    Right:
        azurerm_storage_blob.manifests-namespace:
          actions: [delete, create]
          before: {source_content: "{kind: ValidatingAdmissionPolicy, metadata: {name: jobs}}"}
          after:
            source_content: |
              kind: ValidatingAdmissionPolicy
              metadata: {name: jobs}
              spec: {validations: [{message: no nodeName, expression: a}]}
    """
    old, new = (_objects(change.shown(side)) for side in ("before", "after"))
    if not new:
        return
    # The namespace's name is ignored in the comparison: `left-namespace` reports another one.
    moved = _namespaces(old) ^ _namespaces(new)
    policies = _nameless(_policies(new), moved)
    for name, each in _policies(old).items():
        was, now = _nameless(each, moved), policies.get(_nameless(name, moved), {})
        rules, later = (as_list(value_at(spec, ("validations",))) for spec in (each, now))
        differ = [
            str(value_at(one, ("message",))) for one in rules if _nameless(one, moved) not in later
        ]
        if {**was, "validations": ()} != {**now, "validations": ()}:
            differ.append("what it is about")
        if differ:
            yield Violation(
                f"`{name}` would refuse something else than before: {'; '.join(differ)}",
                "look at both sides in the plan: all who may submit jobs may use what is let in",
            )


@check("left-namespace", Severity.WARNING, Subject.PLAN, select=changed("azurerm_storage_blob"))
def left_namespace(change: ResourceChange) -> Iterator[Violation]:
    """Another namespace for the jobs of a Kubernetes cluster: the one before stays as it is.

    Flux deletes nothing that the manifests no longer have.

    Wrong:
        azurerm_storage_blob.manifests-namespace:
          actions: [delete, create]
          before:
            source_content: |
              {kind: Namespace, metadata: {name: training}}
              --- {kind: ValidatingAdmissionPolicy, metadata: {name: training-pods}}
          after:
            source_content: |
              {kind: Namespace, metadata: {name: jobs}}
              --- {kind: ValidatingAdmissionPolicy, metadata: {name: jobs-pods}}

    Right:
        azurerm_storage_blob.manifests-drivers:
          actions: [delete, create]
          before: {source_content: "{kind: Namespace, metadata: {name: gpu-operator}}"}
          after: {source_content: "{kind: Namespace, metadata: {name: network-operator}}"}
    """
    old, new = (_objects(change.shown(side)) for side in ("before", "after"))
    later = _namespaces(new)
    to = ", ".join(f"`{each}`" for each in sorted(later))
    for name in sorted(_namespaces(old) - later) if later and _policies(old) else ():
        yield Violation(
            f"the namespace `{name}` would stay in the cluster, with its jobs and their rules: "
            f"targets would lead to {to}",
            f"apply it when nothing runs or waits, and then: kubectl delete namespace {name}",
        )


@check("moved-volume", Severity.WARNING, Subject.PLAN, select=changed("azurerm_storage_blob"))
def moved_volume(change: ResourceChange) -> Iterator[Violation]:
    """A volume of a Kubernetes cluster that comes from elsewhere under the name that it had.

    The API server refuses it, as the source of a volume is immutable, and Flux then applies nothing
    of the folder that it is in: no volume, rule or head pod. Where manifests depend on what is made
    by the same deployment, nobody knows yet.

    Wrong:
        azurerm_storage_blob.manifests-volumes:
          actions: [delete, create]
          before:
            source_content: |
              {kind: PersistentVolume, metadata: {name: data}, spec: {nfs: {server: 10.0.0.4}}}
          after:
            source_content: |
              {kind: PersistentVolume, metadata: {name: data}, spec: {nfs: {server: 10.0.0.5}}}

    Right:
        azurerm_storage_blob.manifests-volumes:
          actions: [delete, create]
          before:
            source_content: |
              {kind: PersistentVolume, metadata: {name: data}, spec: {capacity: {storage: 1Ti}}}
          after:
            source_content: |
              {kind: PersistentVolume, metadata: {name: data}, spec: {capacity: {storage: 2Ti}}}
    """
    # Source: Kubernetes 1.33, pkg/apis/core/validation, ValidatePersistentVolumeUpdate.
    old, new = (_objects(change.shown(side)) for side in ("before", "after"))
    if old and change.unknown.get("source_content") is True:
        kept = [each["metadata"]["name"] for each in old.values() if _is_volume(each)]
        if kept:
            yield Violation(
                f"the volumes {', '.join(f'`{name}`' for name in kept)} could come from elsewhere "
                "under their names, which Kubernetes refuses: that is known only after apply",
                "deploy the stacks before this one first, and plan it again",
            )
        return
    for key, each in old.items():
        was, now = (first_block(side.get("spec")) for side in (each, new.get(key, {})))
        if _is_volume(each) and now and _source(was) != _source(now):
            name, claim = each["metadata"]["name"], first_block(was.get("claimRef"))
            made = f"deployment/fairway-head pvc/{claim.get('name', 'NAME')} pv/{name}"
            yield Violation(
                f"the volume `{name}` would come from elsewhere under its name, which Kubernetes "
                "refuses: Flux would apply nothing of its folder any more",
                "give the file system another name in the environment file, or deploy when nothing "
                "runs or waits, and then let Flux make it anew: "
                f"kubectl -n {claim.get('namespace', 'NAMESPACE')} delete {made}",
            )


def _is_volume(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["kind"] == "PersistentVolume")


def _source(volume: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns the source of a volume, from its `spec`."""
    return volume.get("nfs"), volume.get("csi")


def _objects(side: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the manifests of a blob by name, or none if it has other content."""
    from fairway_core.kubernetes.documents import objects_of  # most plans have no manifests

    return objects_of(str(side.get("source_content", ""))) or {}


def _policies(objects: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the specs of policies and bindings among the manifests."""
    return {
        name: first_block(each.get("spec"))
        for name, each in objects.items()
        if each["kind"].startswith("ValidatingAdmissionPolicy")
    }


def _nameless(value: Any, names: Collection[str]) -> Any:
    """Returns the value with these names replaced by `_`."""
    if isinstance(value, str) and names:
        return re.sub(rf"\b({'|'.join(map(re.escape, names))})\b", "_", value)
    if isinstance(value, dict):
        return {_nameless(key, names): _nameless(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_nameless(each, names) for each in value]
    return value


def _namespaces(objects: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        each["metadata"]["name"] for each in objects.values() if each["kind"] == "Namespace"
    )
