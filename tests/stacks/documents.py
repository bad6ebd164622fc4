"""Readers of an environment's synthesized stacks, by role as `written` returns them."""

import base64
import re
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML

from fairway_core.target import Target

Stacks = dict[str, dict[str, Any]]
Written = Callable[..., Stacks]


def resources_of(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the resources of a stack by address."""
    return {
        f"{kind}.{name}": body
        for kind, named in document.get("resource", {}).items()
        for name, body in named.items()
    }


def only(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """Returns the only resource of its type in a stack."""
    (body,) = document["resource"][kind].values()
    return dict(body)


def targets_of(stacks: Stacks) -> dict[str, Target]:
    """Returns the targets of jobs by name, parsed as the runner does."""
    records = stacks["compute"]["output"]["targets"]["value"]
    return {each["name"]: Target.from_json(each) for each in records}


def decoded(text: str) -> str:
    """Decodes a text that Azure gets in base64, with `@@0@@` for values that Terraform fills in."""
    found = re.search(r'base64decode\("([^"]+)"\)', text)
    return base64.b64decode(found[1] if found else text).decode()


def boot_data(machine: dict[str, Any]) -> str:
    """Returns the decoded boot data of a machine."""
    return decoded(machine["custom_data"])


def files_at_boot(machine: dict[str, Any]) -> dict[str, str]:
    """Returns the files that cloud-init writes on a machine, by path."""
    document = YAML(typ="safe", pure=True).load(boot_data(machine))
    return {entry["path"]: entry["content"] for entry in document["write_files"]}
