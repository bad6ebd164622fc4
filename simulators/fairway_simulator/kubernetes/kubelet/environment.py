"""The environment of a container: what its spec says, and what it takes from elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator import mpi

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(\$?)\(([-._A-Za-z][-._A-Za-z0-9]*)\)")
_MARKED = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def of_image() -> dict[str, str]:
    """What every image sets: here the programs of this machine, this Python's first, and what its
    MPI must know."""
    return {"PATH": f"{Path(sys.executable).parent}:{_PATH}", "HOME": "/root", **mpi.SHARED_CORES}


def variables(
    pod: Mapping[str, Any], container: Mapping[str, Any], known: Mapping[str, str]
) -> dict[str, str]:
    """What a container's process has; KeyError for what is not known here."""
    if "envFrom" in container:
        raise KeyError("the stand-in has no envFrom")
    found = dict(known)
    for each in container.get("env") or ():
        if "valueFrom" in each:
            found[each["name"]] = _from(pod, container, each["valueFrom"])
        else:
            found[each["name"]] = expanded(each.get("value") or "", found)
    return found


def expanded(text: str, known: Mapping[str, str]) -> str:
    """A text with `$(NAME)` replaced by what is known; `$$(NAME)` is kept as `$(NAME)`."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        return known.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


def field_of(pod: Mapping[str, Any], path: str) -> str:
    """A field of the pod, as `fieldRef` means it."""
    metadata = pod["metadata"]
    if match := _MARKED.match(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    if path == "status.podIPs":
        return ",".join(each["ip"] for each in value or ())
    return str(value)


def _from(pod: Mapping[str, Any], container: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    if field := source.get("fieldRef"):
        return field_of(pod, field["fieldPath"])
    if resource := source.get("resourceFieldRef"):
        kind, _, name = resource["resource"].partition(".")
        text = (container.get("resources", {}).get(kind) or {}).get(name, "0")
        return str(-int(-parse(text) // parse(resource.get("divisor") or "1")))
    raise KeyError(f"the stand-in has no variables from {next(iter(source))}")
