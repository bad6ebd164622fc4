"""Answers to requests: the store's resources, and a few special cases.

A path that names a resource is answered from the store, one that names a collection with the
store's resources in it. The tables below have the other cases, each of which the azurerm provider
or a client of the management API requests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.additions import role_definition
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.compute import SCALE_SETS
from fairway_simulator.azure.resource_ids import ResourcePath, refused

if TYPE_CHECKING:
    from fairway_simulator.azure.compute import Compute
    from fairway_simulator.azure.store import ResourceStore

Answer = tuple[int, Any]

# A version of each kind that a region lists. Source: Azure REST API, Managed Clusters - List
# Kubernetes Versions; Azure documentation, AKS: long-term support.
_KUBERNETES = [
    {"version": version, "isPreview": preview or None, "capabilities": {"supportPlan": plans}}
    for version, preview, plans in (
        ("1.34", False, ["AKSLongTermSupport"]),
        ("1.35", False, ["KubernetesOfficial", "AKSLongTermSupport"]),
        ("1.36", False, ["KubernetesOfficial", "AKSLongTermSupport"]),
        ("1.37", True, ["KubernetesOfficial"]),
    )
]

_ROLE_FILTER = re.compile(r"roleName eq '((?:[^']|'')*)'", re.IGNORECASE)


def answer(compute: Compute, method: str, path: ResourcePath, filter_: str, body: Any) -> Answer:
    of_compute = compute.answer(method, path, body)
    if of_compute is not None:
        return of_compute
    if method in ("GET", "HEAD"):
        return _read(compute, path, filter_)
    if method == "POST":
        return _act(compute.store, path)
    return refused(405, "MethodNotAllowed", f"{method} of {path.type} is not known here.")


def _read(compute: Compute, path: ResourcePath, filter_: str) -> Answer:
    store = compute.store
    found = store.get(path)
    if found is not None:
        return 200, found
    special = _special(compute, path)
    if special is not None:
        return 200, special
    if path.is_resource:
        return _missing(path)
    if path.type.endswith("/roledefinitions"):
        return 200, {"value": _roles_named(store, filter_)}
    if path.type.startswith(SCALE_SETS):
        return 200, {"value": compute.instances_in(path)}
    if path.type.endswith("/skus/versions"):  # of images: a plain list
        return 200, store.list(path)
    return 200, {"value": store.list(path)}


def _roles_named(store: ResourceStore, filter_: str) -> list[dict[str, Any]]:
    """Returns the roles that a filter by name finds: created ones, or a built-in one."""
    name = _ROLE_FILTER.search(filter_)
    if not name:
        return []
    definition = role_definition(name[1].replace("''", "'"))
    store.remember_role(definition)
    return [definition]


def _special(compute: Compute, path: ResourcePath) -> dict[str, Any] | None:
    """Returns resources that Azure has without anybody creating them."""
    store = compute.store
    parts = path.key.strip("/").split("/")
    if len(parts) == 2 and parts[0] == "subscriptions":
        return {
            "id": path.text,
            "subscriptionId": path.name,
            "tenantId": NOBODY,
            "displayName": "loopback",
            "state": "Enabled",
        }
    if parts[-2:-1] == ["providers"]:  # …/providers/Microsoft.Batch
        return {"id": path.text, "namespace": path.name, "registrationState": "Registered"}
    if path.type.endswith("/locations/kubernetesversions"):
        return {"values": _KUBERNETES}
    if path.type.endswith("/roledefinitions") and path.is_resource:
        # Roles are looked up by name first, as the id does not contain the name.
        role = store.built_in_role(path.name)
        return role and {**role, "id": path.text}
    if path.type.startswith(f"{SCALE_SETS}/virtualmachines") and path.is_resource:
        return compute.instance(path)
    return None


def _act(store: ResourceStore, path: ResourcePath) -> Answer:
    """Answers a POST, whose path ends in the action to take on the resource before it."""
    action = path.name.lower()
    subject = path.parent_of_action()
    if action == "checknameavailability":
        return 200, {"nameAvailable": True}
    if action == "register":
        namespace = path.parts[-2]
        return 200, {"namespace": namespace, "registrationState": "Registered"}
    if action == "validate":  # of a template, before it is deployed
        return 200, {"properties": {"provisioningState": "Succeeded"}}
    resource = store.get(subject)
    return _missing(subject) if resource is None else (200, {})


def _missing(path: ResourcePath) -> Answer:
    code = "ResourceGroupNotFound" if path.type == "resourcegroups" else "ResourceNotFound"
    return refused(404, code, f"{path.text} was not found.")
