"""What the server refuses though it can read it (422): each cause begins with the field's path."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api import (
    job_rules,
    kueue_rules,
    pod_rules,
    quotas,
    schemas,
    volume_rules,
)
from fairway_simulator.kubernetes.api.errors import ApiError, conflict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object

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
    """What is wrong with an object."""
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
        yield from kueue_rules.causes(resource.kind, found)
    if resource.plural == "pods":
        yield from pod_rules.causes(found["spec"], "spec")
    elif resource.plural == "jobs":
        yield from job_rules.causes(found)
        yield from pod_rules.causes(found["spec"]["template"]["spec"], "spec.template.spec")
    elif resource.plural in ("deployments", "replicasets"):
        yield from _template(found)
    elif resource.plural in _STORAGE:
        yield from volume_rules.causes(resource.plural, found)
    elif resource.plural == "resourcequotas":
        yield from quotas.causes(found)


def immutable(resource: Resource, before: Object, found: Object) -> list[str]:
    """What of an object may not be changed, and was."""
    if resource.is_custom:
        return kueue_rules.immutable(resource.kind, before, found)
    if resource.plural == "jobs":
        return list(job_rules.immutable(before, found))
    if resource.plural in _STORAGE:
        return volume_rules.immutable(resource.plural, before, found)
    if resource.plural == "pods" and not pod_rules.may_become(before["spec"], found["spec"]):
        return [_FIXED_POD]
    if resource.plural in ("rolebindings", "clusterrolebindings"):
        if before.get("roleRef") != found.get("roleRef"):
            return [f"roleRef: Invalid value: {_json(found.get('roleRef'))}: cannot change roleRef"]
    elif resource.plural in ("deployments", "replicasets"):
        selector = found["spec"].get("selector")
        if before["spec"].get("selector") != selector:
            return [f"spec.selector: Invalid value: {_json(selector)}: field is immutable"]
    return []


def other_object(resource: Resource, metadata: Object, uid: str) -> ApiError:
    """409: the object that was meant is gone, and another has its name."""
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
        yield "metadata.name: Required value: name or generateName is required"
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
    yield from pod_rules.causes(spec["template"]["spec"], "spec.template.spec")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
