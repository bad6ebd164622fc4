"""Changes of a resource's attributes, without its secrets.

Terraform writes four trees of the same shape: the values before and after, which of them are
sensitive, and which are known only after apply. They are walked in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fairway_core.json_values import leaves, parse_embedded
from fairway_core.secret_values import contains_secret, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.yaml_text import DataPath


class _Marker:
    """A placeholder for a value that must not or cannot be shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


HIDDEN = _Marker("(sensitive)")
"""The marker for a secret."""
UNKNOWN = _Marker("(known after apply)")
"""The marker for a value that Azure decides."""


@dataclass(frozen=True)
class AttributeChange:
    """A change of one attribute: `old` and `new` are plain data, HIDDEN, UNKNOWN or None.

    `forces` is True if the change requires a replacement of the resource.
    """

    path: str
    old: Any
    new: Any
    forces: bool = False


@dataclass(frozen=True)
class _Seen:
    """A value with its masks: which parts of it are sensitive, and which are unknown."""

    value: Any
    sensitive: Any = False
    unknown: Any = False

    def shown(self) -> Any:
        """Returns the value with its masks applied."""
        return masked(self.value, self.sensitive, self.unknown)


def attribute_changes(change: Mapping[str, Any], *, exact: bool = False) -> list[AttributeChange]:
    """Returns the differences between before and after, in the order of the attributes.

    `null`, empty text, empty lists, zero and false are all equal to Terraform's providers: a change
    from one to another is reported only with `exact`.
    """
    before = _Seen(change.get("before"), change.get("before_sensitive", False))
    sensitive, unknown = (change.get(f"after_{mask}", False) for mask in ("sensitive", "unknown"))
    after = _Seen(change.get("after"), sensitive, unknown)
    forcing = [tuple(path) for path in change.get("replace_paths") or ()]
    found = []
    for path, old, new in _differences((), before, after, exact):
        # A block's name matches any index.
        forces = any(_is_below(path, one) or _is_below(one, path) for one in forcing)
        found.append(AttributeChange(_dotted(path), old.shown(), new.shown(), forces))
    return found


def masked(value: Any, sensitive: Any, unknown: Any = False) -> Any:
    """Returns the value with markers in place of secret and unknown parts."""
    if unknown is True:
        return UNKNOWN
    if sensitive is True:
        return None if value is None else HIDDEN
    if isinstance(value, dict) or (value is None and isinstance(unknown, dict) and unknown):
        return _masked_mapping(value or {}, sensitive, unknown)
    if isinstance(value, list):
        if not sensitive and not unknown:
            return [masked(item, None) for item in value]
        return [
            masked(item, _mask_of(sensitive, index), _mask_of(unknown, index))
            for index, item in enumerate(value)
        ]
    return HIDDEN if isinstance(value, str) and contains_secret(value) else value


def _masked_mapping(value: Mapping[str, Any], sensitive: Any, unknown: Any) -> Any:
    """Returns a mapping with markers for secret and unknown items; few items have a mask."""
    sensitive, unknown = sensitive or {}, unknown or {}
    if not isinstance(sensitive, dict):
        return HIDDEN
    if not isinstance(unknown, dict):
        return UNKNOWN
    marked = {key for masks in (sensitive, unknown) for key, mask in masks.items() if mask}
    shown = dict(value)
    for key, item in value.items():
        if key in marked:
            shown[key] = masked(item, sensitive.get(key), unknown.get(key))
        elif not item:
            continue
        elif _is_secret(value, key) if key == "value" else is_secret_name(key):
            shown[key] = masked(item, True)
        elif isinstance(item, str):
            if contains_secret(item):
                shown[key] = HIDDEN
        elif isinstance(item, dict | list):
            shown[key] = masked(item, None)
    later = {key: mask for key, mask in unknown.items() if mask and key not in value}
    return shown | {key: masked(None, sensitive.get(key), mask) for key, mask in later.items()}


def _is_secret(parent: Mapping[str, Any], key: str) -> bool:
    """Returns True if the key names a secret; for a `value` the name beside it decides."""
    if key != "value":
        return is_secret_name(key)
    name = parent.get("name") or parent.get("key")
    return not isinstance(name, str) or is_secret_name(name)


def _mask_of(mask: Any, key: str | int) -> Any:
    """Returns the part of a mask for a key or an index; a mask of another shape applies to all."""
    if mask is False:
        return False
    if isinstance(mask, dict) and isinstance(key, str):
        return mask.get(key, False)
    if isinstance(mask, list) and isinstance(key, int):
        return mask[key] if key < len(mask) else False
    return bool(mask)


def _differences(
    path: DataPath, old: _Seen, new: _Seen, exact: bool
) -> Iterator[tuple[DataPath, _Seen, _Seen]]:
    """Yields the smallest differing parts, each with its path."""
    hidden = old.sensitive is True or new.sensitive is True
    if new.unknown is True or hidden:
        if new.unknown is True or not _same(old.value, new.value, exact):
            yield path, _hidden(old, hidden), _hidden(new, hidden)
        return
    # A blob's text may be manifests for Flux.
    if path == ("source_content",) and isinstance(old.value, str) and isinstance(new.value, str):
        old, new = _as_objects(old, new)
    if isinstance(old.value, dict) and isinstance(new.value, dict):
        yield from _of_mappings(path, old, new, exact)
    elif old.value is None and not path:
        yield from _of_mappings(path, _Seen({}), new, exact)
    elif _are_blocks(old.value) and _are_blocks(new.value) and (old.value or new.value):
        yield from _of_blocks(path, old, new, exact)
    elif not _same(old.value, new.value, exact):
        yield path, old, new


def _as_objects(old: _Seen, new: _Seen) -> tuple[_Seen, _Seen]:
    """Parses manifests into their objects; returns anything else unchanged."""
    from fairway_core.kubernetes.documents import objects_of

    before, after = objects_of(old.value), objects_of(new.value)
    if before is None or after is None:
        return old, new
    return replace(old, value=before), replace(new, value=after)


def _hidden(seen: _Seen, hidden: bool) -> _Seen:
    return _Seen(seen.value, True, seen.unknown) if hidden and seen.value is not None else seen


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _of_mappings(
    path: DataPath, old: _Seen, new: _Seen, exact: bool
) -> Iterator[tuple[DataPath, _Seen, _Seen]]:
    before, after = old.value or {}, new.value or {}
    unknown = new.unknown if isinstance(new.unknown, dict) else {}
    for key in {**before, **after, **unknown}:
        if not unknown.get(key) and before.get(key, _Marker) == after.get(key, _Marker):
            continue  # most attributes do not change
        yield from _differences((*path, key), _below(old, key), _below(new, key), exact)


def _below(seen: _Seen, key: str | int) -> _Seen:
    value = seen.value[key] if isinstance(key, int) else (seen.value or {}).get(key)
    secret = _mask_of(seen.sensitive, key)
    if value and not secret and isinstance(key, str):
        secret = _is_secret(seen.value, key)
    return _Seen(value, secret, _mask_of(seen.unknown, key))


def _of_blocks(
    path: DataPath, old: _Seen, new: _Seen, exact: bool
) -> Iterator[tuple[DataPath, _Seen, _Seen]]:
    """Yields differences of blocks, compared by name if all have one, as in sets, or by index."""
    keys_before, keys_after = _keys(old.value), _keys(new.value)
    if keys_before is None or keys_after is None:
        keys_before, keys_after = list(range(len(old.value))), list(range(len(new.value)))
    before = {key: _below(old, index) for index, key in enumerate(keys_before)}
    after = {key: _below(new, index) for index, key in enumerate(keys_after)}
    nothing = _Seen(None)
    for key in {**before, **after}:
        one, other = before.get(key, nothing), after.get(key, nothing)
        yield from _differences((*path, key), one, other, exact)


def _keys(items: Sequence[Mapping[str, Any]]) -> list[str | int] | None:
    """Returns the names of the blocks, or None unless all names are unique."""
    names = [item.get("name") for item in items]
    if all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names):
        return list(names)  # type: ignore[arg-type]
    return None


def _same(old: Any, new: Any, exact: bool) -> bool:
    if old == new:
        return True
    if exact:
        return False
    if not _is_something(old) and not _is_something(new):
        return True
    return bool(_read(old) == _read(new))


def _read(value: Any) -> Any:
    """Returns the value with JSON texts parsed, and without empty items, at any depth."""
    if isinstance(value, dict):
        return {key: _read(item) for key, item in value.items() if _is_something(item)}
    if isinstance(value, list):
        return [_read(item) for item in value]
    return parse_embedded(value) if isinstance(value, str) else value


def _is_something(value: Any) -> bool:
    """Returns True if the value contains anything but a provider's empty values, at any depth."""
    return any(leaves(value))


def _is_below(path: DataPath, other: DataPath) -> bool:
    if len(path) < len(other):
        return False
    pairs = zip(path, other, strict=False)
    return all(mine == theirs or isinstance(theirs, int) for mine, theirs in pairs)


def _dotted(path: DataPath) -> str:
    """Returns the path as in Terraform: `network_interface[0].name`, `security_rule["ssh"]`."""
    text = ""
    for index, step in enumerate(path):
        if isinstance(step, int):
            text += f"[{step}]"
        elif index and not step.isidentifier():
            text += f'["{step}"]'
        else:
            text += f".{step}" if index else step
    return text
