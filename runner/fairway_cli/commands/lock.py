"""`fairway lock`: which provider Terraform may run, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option


def command(
    platform: Annotated[
        list[str] | None, Option(metavar="OS_ARCH", help="Only for this platform. Repeatable.")
    ] = None,
    mirror: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Take providers from this folder, as terraform providers mirror does.",
        ),
    ] = None,
    upgrade: Annotated[
        bool, Option("--upgrade", help="Lock the newest version that Fairway supports.")
    ] = False,
    check: Annotated[
        bool, Option("--check", help="Only check that there is one; write nothing.")
    ] = False,
) -> None:
    """Lock the provider that plans and deployments may run.

    Writes terraform.lock.hcl beside cdktf.json, with the provider's version and its hashes on
    every platform: commit it. With it Terraform runs no other provider, whatever a branch or a
    state names. With --check it writes nothing, and exits with 2 if the file is missing or
    locks the azurerm of another registry; workflows run this before they sign in. Exits with 4 if
    the provider cannot be downloaded.
    """
    from fairway_stacks.plan.options import files_can_be_written
    from fairway_stacks.plan.provider_lock import PLATFORMS, check_lock, write_lock

    if check:
        print(check_lock())
        return
    with files_can_be_written():
        print(write_lock(platform or PLATFORMS, mirror, upgrade=upgrade))
