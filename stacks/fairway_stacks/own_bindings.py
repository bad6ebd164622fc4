"""A user's own bindings: typed classes for azurerm types that the construct library lacks.

A type is named as in Terraform's addresses: `azurerm_container_app` is a resource,
`data.azurerm_virtual_network` a data source.
"""

from __future__ import annotations

import tempfile
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_constructs.azurerm import PROVIDER_SOURCE
from fairway_constructs.bindings.facts import kept_facts
from fairway_constructs.bindings.names import class_name, module_name
from fairway_constructs.bindings.provider_schema import read_provider_schema
from fairway_constructs.bindings.render import OWN_WRITER, render_own
from fairway_core.findings import Finding, UserError
from fairway_stacks.plan.provider_lock import lock_of_project, write_requirements
from fairway_stacks.plan.terraform import Terraform, cache_variables, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DATA = "data."


def write_bindings(types: Sequence[str], into: Path, schema: Path | None = None) -> list[str]:
    """Writes a module for each type into the package `into`; returns the imports of their classes.

    The schema is that of the project's locked provider, or `schema`, a file with the output of
    `terraform providers schema -json`. Modules that were written there before stay. Raises
    UserError for a type that the library has or the provider lacks, for a folder with files of the
    user's, and with exit code 4 without Terraform or its provider.
    """
    _require_others(types)
    package = into.resolve()
    _require_package(package, shown=into)
    data = [each.removeprefix(_DATA) for each in types if each.startswith(_DATA)]
    resources = [each for each in types if not each.startswith(_DATA)]
    with tempfile.TemporaryDirectory(prefix="fairway-schema-") as folder:
        file, version = (schema, None) if schema else _print_schema(Path(folder))
        facts = read_provider_schema(file, PROVIDER_SOURCE, resources, data, version)
    package.mkdir(parents=True, exist_ok=True)
    for name, text in render_own(facts).items():
        (package / name).write_text(text, encoding="utf-8")
    return [_import(package.name, each) for each in types]


def _require_others(types: Iterable[str]) -> None:
    """Raises UserError for types that the library has, with all of their arguments."""
    facts = kept_facts()
    known = {*facts.resources, *(f"{_DATA}{each}" for each in facts.data_sources)}
    found = [
        Finding(
            "in-the-library", f"the library has {each}", _import("fairway_constructs.azurerm", each)
        )
        for each in types
        if each in known
    ]
    if found:
        raise UserError(found)


def _require_package(package: Path, *, shown: Path) -> None:
    """Raises UserError if the package cannot be imported, or holds files not written here."""
    if not package.name.isidentifier() or iskeyword(package.name):
        hint = "letters, digits and underscores, such as `--into own_bindings`"
        message = f"--into {shown}: Python cannot import a package `{package.name}`"
        raise UserError.of("not-a-package", message, hint)
    if package.exists() and not package.is_dir():
        raise UserError.of("not-a-package", f"--into {shown}: is a file", "name a folder")
    others = [each.name for each in package.glob("*") if not _is_written_here(each)]
    if others:
        raise UserError.of(
            "own-files",
            f"--into {shown}: holds {', '.join(sorted(others)[:3])}, which `fairway bindings` did "
            "not write",
            f"name a folder that is new or empty, such as `--into {shown / 'bindings'}`",
        )


def _is_written_here(file: Path) -> bool:
    if file.name == "__pycache__":
        return True
    if file.suffix != ".py" or not file.is_file():
        return False
    with file.open(encoding="utf-8", errors="replace") as text:
        return f"written by {OWN_WRITER}, never edited" in text.readline()


def _print_schema(folder: Path) -> tuple[Path, str]:
    """Downloads the provider and prints its schema; returns the file and the version."""
    require()
    write_requirements(folder)
    terraform = Terraform(
        "the provider", folder, {**cache_variables(), "CHECKPOINT_DISABLE": "1"}, lock_of_project()
    )
    terraform.init()
    text, versions = terraform.provider_schemas()
    file = folder / "schema.json"
    file.write_text(text, encoding="utf-8")
    found = [each for source, each in versions.items() if source.endswith(f"/{PROVIDER_SOURCE}")]
    return file, found[0] if found else ""


def _import(package: str, type_: str) -> str:
    module = module_name(type_.removeprefix(_DATA), data=type_.startswith(_DATA))
    return f"from {package}.{module} import {class_name(module)}"
