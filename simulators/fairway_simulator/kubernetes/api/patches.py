"""Patches of the types that kubectl and Fairway send: merge, strategic merge and apply."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.requests import ApiError, bad_request
from fairway_simulator.kubernetes.api.schemas import Schema, definitions, resolved

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.api.resources import Resource

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"


def patched(found: Any, patch: Any, form: str, resource: Resource) -> Any:
    """Applies a patch to an object. Raises ApiError (415) for an unknown patch type."""
    found = copy.deepcopy(found)
    if not isinstance(patch, dict):
        raise bad_request("the patch is no object")
    if form == MERGE or (form in (STRATEGIC, APPLY) and resource.is_custom):
        return merged(found, patch)
    if form in (STRATEGIC, APPLY):
        return _strategic(found, patch, definitions()[resource.schema])
    raise ApiError(415, f"the body of the request was in an unknown format - {form}")


def merged(found: Any, patch: Any) -> Any:
    """Merges as in RFC 7386: null removes, objects are merged, all else is replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(found) if isinstance(found, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _strategic(found: Any, patch: Any, schema: Schema) -> Any:
    """Merges as `merged` does, but merges lists that have a merge key by that key."""
    if not isinstance(patch, dict) or patch.get("$patch") == "replace":
        return (
            {k: v for k, v in patch.items() if k != "$patch"} if isinstance(patch, dict) else patch
        )
    result = dict(found) if isinstance(found, dict) else {}
    schema = resolved(schema)
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        inner = known.get(name) or (more if isinstance(more, dict) else {})
        key = inner.get("x-kubernetes-patch-merge-key")
        if value is None:
            result.pop(name, None)
        elif isinstance(value, list) and key:
            result[name] = _merged_list(
                result.get(name) or [], value, key, inner.get("items") or {}
            )
        elif isinstance(value, list) and inner.get("x-kubernetes-patch-strategy") == "merge":
            old = result.get(name) or []
            result[name] = [*old, *(each for each in value if each not in old)]
        else:
            result[name] = _strategic(result.get(name), value, inner)
    return result


def _merged_list(found: list[Any], patch: list[Any], key: str, schema: Schema) -> list[Any]:
    result = [*found]
    for each in patch:
        if each.get("$patch") == "replace":
            return [other for other in patch if "$patch" not in other]
        places = [i for i, old in enumerate(result) if old.get(key) == each.get(key)]
        if each.get("$patch") == "delete":
            result = [old for i, old in enumerate(result) if i not in places]
        elif places:
            result[places[0]] = _strategic(result[places[0]], each, schema)
        else:
            result.append(_strategic({}, each, schema))
    return result
