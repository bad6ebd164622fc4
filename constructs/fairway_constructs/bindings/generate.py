"""`bin/bindings [SCHEMA] [--version X.Y.Z]`: write the bindings of the selected resources.

Without a schema they are written anew from the kept facts, which changes nothing unless
the generator or the selection has changed; with one, the facts are taken from it first.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_constructs.bindings.facts import KEPT, Facts
from fairway_constructs.bindings.provider_schema import read_provider_schema
from fairway_constructs.bindings.render import render
from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.bindings.facts import Body

SELECTION = Path(__file__).with_name("selection.toml")
PACKAGE = Path(__file__).resolve().parent.parent / "azurerm"


def _pick(bodies: Mapping[str, Body], names: Sequence[str]) -> dict[str, Body]:
    if missing := sorted(set(names) - bodies.keys()):
        raise UserError.of(
            "unknown-resource",
            f"{KEPT.name}: has no {', '.join(missing)}",
            "run bin/bindings SCHEMA with a provider schema that has them",
        )
    return {name: bodies[name] for name in sorted(names)}


def write_package(facts: Facts, package: Path) -> None:
    """Writes the generated modules into the folder `package`, and deletes all others."""
    files = render(facts)
    package.mkdir(exist_ok=True)
    for file in package.glob("*.py"):
        if file.name not in files:
            file.unlink()
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")


def generate(
    schema: Path | None,
    version: str | None,
    *,
    selection_file: Path = SELECTION,
    kept: Path = KEPT,
    package: Path = PACKAGE,
) -> None:
    """Writes the kept facts and the package, from a schema or from the kept facts.

    Raises UserError if the schema, or the kept facts, lack a selected resource.
    """
    selection = tomllib.loads(selection_file.read_text(encoding="utf-8"))
    if schema is None:
        facts = Facts.from_text(kept.read_text(encoding="utf-8"))
        facts = replace(
            facts,
            resources=_pick(facts.resources, selection["resources"]),
            data_sources=_pick(facts.data_sources, selection["data_sources"]),
        )
    else:
        facts = read_provider_schema(schema, **selection, version=version)
        if not re.fullmatch(r"\d+\.\d+\.\d+", facts.version):
            said = f"{facts.version} is no" if facts.version else "does not say which"
            raise UserError.of(
                "no-version",
                f"{schema}: {said} version of {facts.provider}",
                "give --version X.Y.Z; `terraform version` names the provider's",
            )
    kept.write_text(facts.to_text(), encoding="utf-8")
    write_package(facts, package)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="bindings", description=__doc__.partition("\n\n")[2])
    parser.add_argument(
        "schema",
        nargs="?",
        type=Path,
        help="a file with what `terraform providers schema -json` prints",
    )
    parser.add_argument("--version", help="the provider's version, for example 5.2.0")
    options = parser.parse_args(arguments)
    try:
        generate(options.schema, options.version)
    except UserError as error:
        for finding in error.findings:
            print(format_finding(finding), file=sys.stderr)  # noqa: T201 - the command's own output
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
