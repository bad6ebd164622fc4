"""Refusals of well-formed objects (422): each cause begins with the field's path."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api import pod_rules, policies, schemas
from fairway_simulator.kubernetes.api.requests import ApiError, conflict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object


_MOST_LABELS = 8
_MOST_FLAVORS = 64


def kueue_causes(kind: str, found: dict[str, Any]) -> Iterator[str]:
    spec = found.get("spec") or {}
    if kind == "ResourceFlavor":
        for field in ("nodeLabels", "nodeTaints"):
            if len(spec.get(field) or ()) > _MOST_LABELS:
                yield f"spec.{field}: Too many: {len(spec[field])}: must have at most 8 items"
    elif kind == "ClusterQueue":
        yield from _cluster_queue(spec)
    elif kind == "LocalQueue" and not spec.get("clusterQueue"):
        # Kueue accepts a LocalQueue without it, which then admits nothing.
        yield "spec.clusterQueue: Required value"


def _cluster_queue(spec: dict[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    for number, group in enumerate(spec.get("resourceGroups") or ()):
        path = f"spec.resourceGroups[{number}]"
        covered = group["coveredResources"]
        if not covered or not group["flavors"] or len(group["flavors"]) > _MOST_FLAVORS:
            yield f"{path}: Invalid value: it has 1 to 64 resources and flavors"
        for name in covered:
            if name in seen:
                yield f'{path}.coveredResources: Duplicate value: "{name}"'
            seen.add(name)
        for index, flavor in enumerate(group["flavors"]):
            yield from _flavor(flavor, covered, f"{path}.flavors[{index}]")


def _flavor(flavor: dict[str, Any], covered: list[str], path: str) -> Iterator[str]:
    names = [each["name"] for each in flavor["resources"]]
    if len(names) != len(covered):
        yield (
            f"{path}: Invalid value: flavors must have the same number of resources as the "
            "coveredResources"
        )
    elif names != covered:
        yield f"{path}.resources: Invalid value: must match the name in coveredResources"
    for index, quota in enumerate(flavor["resources"]):
        where, value = f"{path}.resources[{index}].nominalQuota", quota["nominalQuota"]
        try:
            negative = parse(value) < 0
        except ValueError:
            yield f'{where}: Invalid value: "{value}": quantities must match the regular expression'
            continue
        if negative:
            yield f'{where}: Invalid value: "{value}": must be greater than or equal to 0'


_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
# Fields of a volume that are not its source.
_ABOUT = frozenset(
    {"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName"}
    | {"mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"}
)


def storage_causes(plural: str, found: dict[str, Any]) -> Iterator[str]:
    spec = found["spec"]
    modes = spec.get("accessModes")
    if not modes:
        yield "spec.accessModes: Required value"
    for mode in modes or ():
        if mode not in _MODES:
            yield f'spec.accessModes: Unsupported value: "{mode}"'
    if plural == "persistentvolumeclaims":
        if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
            yield "spec.resources[storage]: Required value"
        return
    if "storage" not in (spec.get("capacity") or {}):
        yield "spec.capacity: Required value"
    if (policy := spec.get("persistentVolumeReclaimPolicy", "Retain")) != "Retain":
        yield f'spec.persistentVolumeReclaimPolicy: Unsupported value: "{policy}"'
    sources = set(spec) - _ABOUT
    if len(sources) != 1:
        said = "must specify a volume type" if not sources else "may not specify more than 1"
        yield f"spec: Required value: {said}"
    if "nfs" in sources and not str(spec["nfs"]["path"]).startswith("/"):
        yield "spec.nfs.path: Invalid value: must be an absolute path"


def storage_changes(plural: str, before: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Returns the error if a volume's source has changed, or anything but the size of a claim."""
    free, said = set(_ABOUT), "spec.persistentvolumesource is immutable after creation"
    if plural == "persistentvolumeclaims":
        free = {"resources"} if before["spec"].get("volumeName") else {"resources", "volumeName"}
        said = "spec is immutable after creation except resources.requests"
    old, new = ({k: v for k, v in one["spec"].items() if k not in free} for one in (before, found))
    return [] if old == new else [f"spec: Forbidden: {said}"]


_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_PATH_NAME = re.compile(r"^[^/%]+$")
_NAME = 253
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)

_STORAGE = ("persistentvolumes", "persistentvolumeclaims")
_FIXED_POD = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def causes(resource: Resource, found: Object) -> Iterator[str]:
    yield from _metadata(resource, found)
    if resource.schema:
        schema = schemas.definitions()[resource.schema]
        lacking = [schemas.spelled(path) for path in schemas.lacking(found, schema)]
        yield from (f"{path}: Required value" for path in lacking)
        if lacking:
            return
    if resource.is_custom:
        for path, values in schemas.not_among(found, schemas.definitions()[resource.schema]):
            known = ", ".join(f'"{each}"' for each in values)
            yield f"{schemas.spelled(path)}: Unsupported value: supported values: {known}"
        yield from kueue_causes(resource.kind, found)
    if resource.plural == "pods":
        yield from pod_rules.pod_causes(found["spec"], "spec")
    elif resource.plural == "jobs":
        yield from pod_rules.job_causes(found)
        yield from pod_rules.pod_causes(found["spec"]["template"]["spec"], "spec.template.spec")
    elif resource.plural == "deployments":
        yield from _template(found)
    elif resource.plural in _STORAGE:
        yield from storage_causes(resource.plural, found)
    elif resource.plural == "resourcequotas":
        yield from policies.quota_causes(found)


def immutable(resource: Resource, before: Object, found: Object) -> list[str]:
    if resource.plural == "jobs":
        return list(pod_rules.job_changes(before, found))
    if resource.plural in _STORAGE:
        return storage_changes(resource.plural, before, found)
    if resource.plural == "pods" and not pod_rules.may_become(before["spec"], found["spec"]):
        return [_FIXED_POD]
    if resource.plural in ("rolebindings", "clusterrolebindings"):
        if before.get("roleRef") != found.get("roleRef"):
            return [f"roleRef: Invalid value: {_json(found.get('roleRef'))}: cannot change roleRef"]
    elif resource.plural == "deployments":
        selector = found["spec"].get("selector")
        if before["spec"].get("selector") != selector:
            return [f"spec.selector: Invalid value: {_json(selector)}: field is immutable"]
    return []


def other_object(resource: Resource, metadata: Object, uid: str) -> ApiError:
    """Returns the error (409) that the addressed object has gone, and another has its name."""
    return conflict(
        resource,
        metadata["name"],
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}",
    )


def _metadata(resource: Resource, found: Object) -> Iterator[str]:
    metadata = found["metadata"]
    name = metadata.get("name") or ""
    form = _PATH_NAME if "rbac" in resource.group else _SUBDOMAIN
    if not name:
        yield "metadata.name: Required value: the stand-in makes no names"
    elif not form.match(name):
        yield f'metadata.name: Invalid value: "{name}": {_SUBDOMAIN_WORDS}'
    elif len(name) > _NAME:
        yield f'metadata.name: Invalid value: "{name}": must be no more than {_NAME} bytes'
    yield from pod_rules.labels(metadata.get("labels"), "metadata.labels")


def _template(found: Object) -> Iterator[str]:
    spec = found["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    if not wanted or any(labels.get(name) != value for name, value in wanted.items()):
        yield (
            f"spec.template.metadata.labels: Invalid value: {_json(labels)}: `selector` does not "
            "match template `labels`"
        )
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy != "Always":
        yield (
            f'spec.template.spec.restartPolicy: Unsupported value: "{policy}": supported values: '
            '"Always"'
        )
    yield from pod_rules.pod_causes(spec["template"]["spec"], "spec.template.spec")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
