"""What Terraform is to take over: resources that are there already, and addresses that changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_core.environment import Environment


def adopt(environment: Environment, files: Mapping[str, Path]) -> None:
    """Adds `import` and `moved` blocks to the stacks that have the resources, each in its file.

    Raises UserError for an address that no stack has.
    """
    if not (environment.imports or environment.moved):
        return
    documents = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}
    for to, resource_id in environment.imports.items():
        stack = documents[_stack_of(to, "imports", documents)]
        stack.setdefault("import", []).append({"to": to, "id": resource_id})
    for old, new in environment.moved.items():
        stack = documents[_stack_of(new, "moved", documents)]
        stack.setdefault("moved", []).append({"from": old, "to": new})
    for name, document in documents.items():
        files[name].write_text(json.dumps(document, indent=2), encoding="utf-8")


def _stack_of(address: str, section: str, documents: Mapping[str, Mapping[str, Any]]) -> str:
    """The stack that has a resource at that address."""
    stacks = {
        f"{type_}.{resource}": name
        for name, document in documents.items()
        for type_, resources in document["resource"].items()
        for resource in resources
    }
    if address not in stacks:
        hint = did_you_mean(address, stacks) or "fairway synth writes the addresses of each stack"
        raise UserError.of(
            "unknown-address", f"`{section}:` names {address}, which no stack has", hint
        )
    return stacks[address]
