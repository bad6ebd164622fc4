"""What Kueue's kinds may not say, though each field by itself is right.

Source: the validation markers of apis/kueue/v1beta2 and its webhooks, of 0.19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LABELS = 8
_MOST_FLAVORS = 64


def causes(kind: str, found: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an object of a kind."""
    spec = found.get("spec") or {}
    if kind == "ResourceFlavor":
        for field in ("nodeLabels", "nodeTaints", "tolerations"):
            if len(spec.get(field) or ()) > _MOST_LABELS:
                yield f"spec.{field}: Too many: {len(spec[field])}: must have at most 8 items"
    elif kind == "ClusterQueue":
        yield from _cluster_queue(spec)
    elif kind == "LocalQueue" and not spec.get("clusterQueue"):
        # The service takes one without, which then admits nothing.
        yield "spec.clusterQueue: Required value"


def immutable(kind: str, before: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What of an object may not be changed, and was."""
    if kind == "LocalQueue" and before["spec"] != found.get("spec"):
        old, new = (each.get("spec", {}).get("clusterQueue") for each in (before, found))
        if old != new:
            return [f'spec.clusterQueue: Invalid value: "{new}": field is immutable']
    return []


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
            yield from _flavor(flavor, covered, f"{path}.flavors[{index}]", spec)


def _flavor(
    flavor: dict[str, Any], covered: list[str], path: str, spec: dict[str, Any]
) -> Iterator[str]:
    names = [each["name"] for each in flavor["resources"]]
    if len(names) != len(covered):
        yield (
            f"{path}: Invalid value: flavors must have the same number of resources as the "
            "coveredResources"
        )
    elif names != covered:
        yield f"{path}.resources: Invalid value: must match the name in coveredResources"
    for index, quota in enumerate(flavor["resources"]):
        for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            if field in quota:
                yield from _amount(quota[field], f"{path}.resources[{index}].{field}")
        if not spec.get("cohortName") and ("borrowingLimit" in quota or "lendingLimit" in quota):
            yield f"{path}.resources[{index}]: Invalid value: limits must be nil without a cohort"


def _amount(value: object, path: str) -> Iterator[str]:
    try:
        negative = parse(value) < 0
    except ValueError:
        yield f'{path}: Invalid value: "{value}": quantities must match the regular expression'
        return
    if negative:
        yield f'{path}: Invalid value: "{value}": must be greater than or equal to 0'
