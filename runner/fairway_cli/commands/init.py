"""`fairway init`: a project to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Made where it is not there.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="The environment's name; by default as DIR is called.")
    ] = None,
    location: Annotated[str, typer.Option(help="The Azure region.")] = "southcentralus",
) -> None:
    """Begin a project: an environment, a job, and what deploys and checks them.

    Writes cdktf.json, an environment with one GPU, a job that trains on any machine,
    fairway.yaml, workflows for GitHub Actions, requirements.txt, .gitignore and a README.
    Your public SSH key goes into the environment where you have one. Nothing that is there
    already is changed: where a file of the same name is, it is named, and nothing is written.
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
