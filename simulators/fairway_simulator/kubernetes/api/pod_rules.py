"""What a pod may look like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_simulator.kubernetes.api.store import Object

_DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LONGEST = 63
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_POLICIES = ("Always", "Never", "OnFailure")


def labels(found: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    """What is wrong with labels."""
    for value in (found or {}).values():
        if len(value) > _LONGEST:
            yield f'{path}: Invalid value: "{value}": must be no more than {_LONGEST} bytes'
        elif not _VALUE.match(value):
            yield f'{path}: Invalid value: "{value}": {_VALUE_WORDS}'


def causes(spec: Object, path: str) -> Iterator[str]:
    """What is wrong with a pod's spec."""
    if not spec["containers"]:
        yield f"{path}.containers: Required value"
    if spec["restartPolicy"] not in _POLICIES:
        policies = ", ".join(f'"{each}"' for each in _POLICIES)
        yield (
            f'{path}.restartPolicy: Unsupported value: "{spec["restartPolicy"]}": supported '
            f"values: {policies}"
        )
    volumes = set[str]()
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] in volumes:
            yield f'{path}.volumes[{index}].name: Duplicate value: "{volume["name"]}"'
        volumes.add(volume["name"])
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            name = container["name"]
            if not _DNS_LABEL.match(name) or len(name) > _LONGEST:
                yield (
                    f'{place}.name: Invalid value: "{name}": a lowercase RFC 1123 label must '
                    "consist of lower case alphanumeric characters or '-'"
                )
            if name in seen:
                yield f'{place}.name: Duplicate value: "{name}"'
            seen.add(name)
            yield from _container(container, place, volumes)


def may_become(before: Object, after: Object) -> bool:
    """Whether a pod's spec may be changed so."""
    return _fixed(before) == _fixed(after)


def _fixed(spec: Object) -> Object:
    """What of a pod's spec stays as it is."""
    kept = {k: v for k, v in spec.items() if k not in ("tolerations", "activeDeadlineSeconds")}
    for field in ("containers", "initContainers"):
        kept[field] = [{**each, "image": ""} for each in spec.get(field) or ()]
    return kept


def _container(container: Object, path: str, volumes: set[str]) -> Iterator[str]:
    if not container.get("image"):
        yield f"{path}.image: Required value"
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount["name"] not in volumes:
            yield f'{path}.volumeMounts[{index}].name: Not found: "{mount["name"]}"'
        if mount.get("subPath") and mount.get("subPathExpr"):
            place = f"{path}.volumeMounts[{index}].subPathExpr"
            yield f"{place}: Invalid value: subPathExpr and subPath are mutually exclusive"
        where = mount["mountPath"]
        if where in paths:
            place = f"{path}.volumeMounts[{index}].mountPath"
            yield f'{place}: Invalid value: "{where}": must be unique'
        paths.add(where)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _resources(resources: Object, path: str) -> Iterator[str]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    amounts = {}
    for field, named in (("limits", limits), ("requests", requests)):
        for name, text in named.items():
            try:
                amounts[field, name] = parse(text)
            except ValueError:
                yield (
                    f'{path}.{field}[{name}]: Invalid value: "{text}": quantities must match the '
                    "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                )
                return
    for (field, name), amount in amounts.items():
        if _is_extended(name) and amount.denominator != 1:
            yield f'{path}.{field}[{name}]: Invalid value: "{amounts}": must be an integer'
    for name, text in requests.items():
        limit = amounts.get(("limits", name))
        if _is_extended(name) and limit is None:
            yield (
                f"{path}.limits: Required value: Limit must be set for non overcommitable resources"
            )
        elif _is_extended(name) and amounts["requests", name] != limit:
            yield (
                f'{path}.requests: Invalid value: "{text}": must be equal to {name} limit of '
                f"{limits[name]}"
            )
        elif limit is not None and amounts["requests", name] > limit:
            yield (
                f'{path}.requests: Invalid value: "{text}": must be less than or equal to {name} '
                f"limit of {limits[name]}"
            )


def _is_extended(name: str) -> bool:
    """Whether it is a device: whole ones, and as many as the limit says."""
    return "/" in name and not name.startswith("kubernetes.io/")
