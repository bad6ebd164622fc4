"""`fairway bindings`: typed classes of azurerm for what the construct library has none of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def command(
    types: Annotated[
        list[str],
        Argument(
            metavar="TYPE…",
            help="A resource, such as azurerm_container_app, or data.TYPE for a data source.",
        ),
    ],
    into: Annotated[
        Path, Option(metavar="DIR", help="The package to write: a new folder, or one of before.")
    ],
    schema: Annotated[
        Path | None,
        Option(metavar="FILE", help="What `terraform providers schema -json` has printed."),
    ] = None,
) -> None:
    """Write typed Python classes for resources that the construct library lacks.

    Any resource or data source of azurerm becomes a module of the package DIR, made from the
    schema of the provider that the project locks, which Terraform downloads if it has to. Prints
    the import of each class. Classes are used like those of fairway_constructs.azurerm; run this
    again for another version of the provider.
    """
    from fairway_stacks.own_bindings import write_bindings
    from fairway_stacks.plan.options import files_can_be_written

    with files_can_be_written():
        print("\n".join(write_bindings(types, into, schema)))
