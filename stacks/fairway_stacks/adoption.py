"""Adoption of existing resources, and of addresses that changed, by Terraform."""

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
        stack, address = _found(to, "imports", documents)
        documents[stack].setdefault("import", []).append({"to": address, "id": resource_id})
    for old, new in environment.moved.items():
        stack, address = _found(new, "moved", documents)
        role, _, was = old.rpartition("/")
        if role and not stack.endswith(f"-{role}"):
            message = f"`moved:` leads from {old} into the stack {stack}"
            hint = "Terraform moves within one stack; across stacks: terraform state mv"
            raise UserError.of("other-stack", message, hint)
        documents[stack].setdefault("moved", []).append({"from": was, "to": address})
    for name, document in documents.items():
        files[name].write_text(json.dumps(document, indent=2), encoding="utf-8")


def _found(named: str, section: str, documents: Mapping[str, dict[str, Any]]) -> tuple[str, str]:
    """The stack that has a resource at that address, with the address; before it may stand which
    stack is meant: `network/azurerm_resource_group.group`."""
    role, _, address = named.rpartition("/")
    type_, _, name = address.partition(".")
    end = f"-{role}" if role else ""
    stacks = [
        stack
        for stack, document in documents.items()
        if name in document["resource"].get(type_, ()) and stack.endswith(end)
    ]
    if len(stacks) > 1:
        several = " or ".join(f"{each.rpartition('-')[2]}/{address}" for each in stacks)
        raise UserError.of(
            "unclear-address", f"`{section}:`: several stacks have {address}", f"write {several}"
        )
    if not stacks:
        known = [
            f"{kind}.{each}"
            for document in documents.values()
            for kind, resources in document["resource"].items()
            for each in resources
        ]
        hint = did_you_mean(address, known) or "fairway synth writes the addresses of each stack"
        raise UserError.of(
            "unknown-address", f"`{section}:` names {named}, which no stack has", hint
        )
    return stacks[0], address
