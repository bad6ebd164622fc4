"""What volumes and claims may not say, and what of them stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_POLICIES = ("Retain", "Delete", "Recycle")
# Of a volume that are no place where it comes from.
_ABOUT = frozenset(
    {"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName"}
    | {"mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName"}
)


def causes(plural: str, found: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a volume or a claim."""
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
    policy = spec.get("persistentVolumeReclaimPolicy", "Retain")
    if policy not in _POLICIES:
        yield f'spec.persistentVolumeReclaimPolicy: Unsupported value: "{policy}"'
    sources = _sources(spec)
    if len(sources) != 1:
        said = "must specify a volume type" if not sources else "may not specify more than 1"
        yield f"spec: Required value: {said}"
    if "nfs" in sources and not str(spec["nfs"]["path"]).startswith("/"):
        yield "spec.nfs.path: Invalid value: must be an absolute path"


def immutable(plural: str, before: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What of a volume or a claim may not be changed, and was."""
    old, new = before["spec"], found["spec"]
    if plural == "persistentvolumes":
        if _sources(old) != _sources(new):
            what = "spec.persistentvolumesource"
            return [f"{what}: Forbidden: {what} is immutable after creation"]
        return []
    fixed = [{k: v for k, v in each.items() if k != "resources"} for each in (old, new)]
    if fixed[0].get("volumeName") is None:
        fixed[1] = {k: v for k, v in fixed[1].items() if k != "volumeName"}
    if fixed[0] != fixed[1]:
        said = "spec is immutable after creation except resources.requests"
        return [f"spec: Forbidden: {said} and volumeAttributesClassName for bound claims"]
    return []


def _sources(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _ABOUT}
