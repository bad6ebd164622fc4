"""Adoption by Terraform of existing resources and of resources whose addresses changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_core.environment.loading import LoadedEnvironment
    from fairway_core.yaml_text import DataPath


def adopt(loaded: LoadedEnvironment, files: Mapping[str, Path]) -> None:
    """Adds `import` and `moved` blocks to the files of the stacks that have the resources.

    Raises UserError for an address that no stack has, and for a resource imported twice.
    """
    environment = loaded.environment
    if not (environment.imports or environment.moved):
        return
    documents = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}
    taken = dict[tuple[str, str], str]()
    for to, resource_id in environment.imports.items():
        stack, address = _found(loaded, ("imports", to), to, documents)
        # An association has the id of one of its ends, but no two resources of one type have one.
        for key in ((stack, address), (address.partition(".")[0], resource_id.lower())):
            if (first := taken.setdefault(key, to)) != to:
                path, message = ("imports", to), f"{first} imports the same resource already"
                hint = "keep one of the two"
                raise loaded.document.error("bad-import", path, message, hint, of_key=True)
        documents[stack].setdefault("import", []).append({"to": address, "id": resource_id})
    for old, new in environment.moved.items():
        stack, address = _found(loaded, ("moved", old), new, documents)
        role, _, was = old.rpartition("/")
        if role and not stack.endswith(f"-{role}"):
            message = f"{old} would move into the stack {stack}"
            hint = "Terraform moves within one stack; across stacks: terraform state mv"
            raise loaded.document.error("other-stack", ("moved", old), message, hint)
        _require_move(loaded, old, was, address, documents[stack])
        documents[stack].setdefault("moved", []).append({"from": was, "to": address})
    for name, document in documents.items():
        files[name].write_text(json.dumps(document, indent=2), encoding="utf-8")


def _require_move(
    loaded: LoadedEnvironment, old: str, was: str, address: str, document: Mapping[str, Any]
) -> None:
    """Raises UserError, at its line in the file, for a move that Terraform would refuse."""
    type_, _, name = was.partition(".")
    message = hint = ""
    if type_ != address.partition(".")[0]:
        message = f"{was} would become {address}, which is of another type"
        hint = "Terraform moves a resource between addresses of its own type"
    elif name in document["resource"].get(type_, ()):
        message = f"the stack still has {was}: it is no address of before"
        hint = "fairway synth writes the addresses of each stack"
    elif any(each["to"] == address for each in document.get("moved", ())):
        message = f"another resource already becomes {address}"
        hint = "keep one of the two"
    if message:
        raise loaded.document.error("bad-move", ("moved", old), message, hint, of_key=True)


def _found(
    loaded: LoadedEnvironment, path: DataPath, named: str, documents: Mapping[str, dict[str, Any]]
) -> tuple[str, str]:
    """Returns the stack that has a resource at the address named at `path`, and the address. A
    prefix may select the stack: `network/azurerm_resource_group.group`."""
    of_key = path[0] == "imports"
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
        message, hint = f"several stacks have {address}", f"write {several}"
        raise loaded.document.error("unclear-address", path, message, hint, of_key=of_key)
    if not stacks:
        known = [
            f"{kind}.{each}"
            for document in documents.values()
            for kind, resources in document["resource"].items()
            for each in resources
        ]
        hint = did_you_mean(address, known) or "fairway synth writes the addresses of each stack"
        message = f"no stack has {named}"
        raise loaded.document.error("unknown-address", path, message, hint, of_key=of_key)
    return stacks[0], address
