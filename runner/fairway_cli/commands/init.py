"""`fairway init`: a project to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of the project; created if it does not exist."),
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="Name of the environment; by default that of DIR.")
    ] = None,
    location: Annotated[str, typer.Option(help="The Azure region.")] = "southcentralus",
) -> None:
    """Create a project: an environment, an example job and CI workflows.

    Writes cdktf.json, an environment with one GPU, a job that trains on any machine,
    fairway.yaml, workflows for GitHub Actions, requirements.txt, .gitignore and a README.
    Your public SSH key goes into the environment if you have one. Existing files are never
    changed: if one has the same name, the command names it and writes nothing.
    """
    from fairway_core.environment.keys import own_public_keys
    from fairway_core.findings import UserError
    from fairway_runner.starter import Settings, write_project

    try:
        keys = own_public_keys(Path.home())
    except UserError:
        keys = ()
    settings = Settings.checked(name, location, folder, keys)
    for path in write_project(folder, settings):
        print(folder / path)
    if settings.source.note:
        print(f"\nnote: {settings.source.note}")
    print("\nnext")
    if folder.resolve() != Path.cwd():
        print(f"  cd {shlex.quote(str(folder))}")
    print("  fairway submit jobs/classify/job.yaml --watch")
    print(f"  fairway check {settings.name}")
