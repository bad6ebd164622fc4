"""The few bodies that kubectl sends in protobuf and in no other form, as plain objects.

The form is that of Kubernetes' API conventions: four bytes of magic, then a message `Unknown` with
the kind and the object. Field numbers are those of the published `generated.proto` files.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    Message = dict[int, tuple[str, Any]]

_MAGIC = b"k8s\0"
_TEXT, _NUMBER, _SWITCH, _BYTES = "text", "number", "switch", "bytes"
_TEXTS = "map of texts"
_BINARIES = "map of bytes"
_LIST = "list of texts"

_METADATA: Message = {
    1: ("name", _TEXT),
    2: ("generateName", _TEXT),
    3: ("namespace", _TEXT),
    11: ("labels", _TEXTS),
    12: ("annotations", _TEXTS),
}
_NAMED: Message = {1: ("metadata", _METADATA)}
_ATTRIBUTES: Message = {
    1: ("namespace", _TEXT),
    2: ("verb", _TEXT),
    3: ("group", _TEXT),
    4: ("version", _TEXT),
    5: ("resource", _TEXT),
    6: ("subresource", _TEXT),
    7: ("name", _TEXT),
}
_PATH: Message = {1: ("path", _TEXT), 2: ("verb", _TEXT)}
_DELETE: Message = {
    1: ("gracePeriodSeconds", _NUMBER),
    2: ("preconditions", {1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)}),
    4: ("propagationPolicy", _TEXT),
}
_ACCESS: Message = {1: ("resourceAttributes", _ATTRIBUTES), 2: ("nonResourceAttributes", _PATH)}
_ROLE: Message = {
    **_NAMED,
    2: (
        "rules",
        [
            {
                1: ("verbs", _LIST),
                2: ("apiGroups", _LIST),
                3: ("resources", _LIST),
                4: ("resourceNames", _LIST),
                5: ("nonResourceURLs", _LIST),
            }
        ],
    ),
}
_SUBJECT: Message = {
    1: ("kind", _TEXT),
    2: ("apiGroup", _TEXT),
    3: ("name", _TEXT),
    4: ("namespace", _TEXT),
}
_REFERENCE: Message = {1: ("apiGroup", _TEXT), 2: ("kind", _TEXT), 3: ("name", _TEXT)}
_BINDING: Message = {**_NAMED, 2: ("subjects", [_SUBJECT]), 3: ("roleRef", _REFERENCE)}
_KINDS: dict[str, Message] = {
    "SelfSubjectAccessReview": {**_NAMED, 2: ("spec", _ACCESS)},
    "SelfSubjectRulesReview": {**_NAMED, 2: ("spec", {1: ("namespace", _TEXT)})},
    "SelfSubjectReview": _NAMED,
    "TokenRequest": {
        **_NAMED,
        2: ("spec", {1: ("audiences", _LIST), 4: ("expirationSeconds", _NUMBER)}),
    },
    "Eviction": {**_NAMED, 2: ("deleteOptions", _DELETE)},
    "DeleteOptions": _DELETE,
    "Secret": {
        **_NAMED,
        2: ("data", _BINARIES),
        3: ("type", _TEXT),
        4: ("stringData", _TEXTS),
        5: ("immutable", _SWITCH),
    },
    "ConfigMap": {**_NAMED, 2: ("data", _TEXTS), 3: ("binaryData", _BINARIES)},
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Namespace": _NAMED,
    "ServiceAccount": _NAMED,
}


def decode(body: bytes) -> dict[str, Any]:
    """The object; 415 for a kind that is not known here."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message")
    unknown = dict(_fields(body[len(_MAGIC) :]))
    kinds = {number: value.decode() for number, value in _fields(unknown.get(1, b""))}
    version, kind = kinds.get(1, ""), kinds.get(2, "")
    if kind not in _KINDS:
        raise ApiError(415, f"protobuf is not taken here for {kind}: send JSON")
    return {"apiVersion": version, "kind": kind, **_read(unknown.get(2, b""), _KINDS[kind])}


def _read(data: bytes, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        if number not in message:
            continue
        name, form = message[number]
        if isinstance(form, dict):
            found[name] = _read(value, form)
        elif isinstance(form, list):
            found.setdefault(name, []).append(_read(value, form[0]))
        elif form in (_TEXTS, _BINARIES):
            pair = dict(_fields(value))
            text = _value(pair.get(2, b""), _TEXT if form is _TEXTS else _BYTES)
            found.setdefault(name, {})[pair.get(1, b"").decode()] = text
        elif form is _LIST:
            found.setdefault(name, []).append(value.decode())
        elif value != b"":
            found[name] = _value(value, form)
    return found


def _value(value: Any, form: str) -> Any:
    if form == _TEXT:
        return value.decode()
    if form == _BYTES:
        return base64.b64encode(value).decode()
    return bool(value) if form == _SWITCH else value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, and integers or bytes."""
    place = 0
    try:
        while place < len(data):
            key, place = _varint(data, place)
            if key & 7 == 0:
                value, place = _varint(data, place)
                yield key >> 3, value
            elif key & 7 == 2:
                length, place = _varint(data, place)
                yield key >> 3, data[place : place + length]
                place += length
            else:
                raise bad_request(f"a field of wire type {key & 7} is not expected here")
    except IndexError:
        raise bad_request("unexpected end of a protobuf message") from None


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
