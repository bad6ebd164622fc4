"""`fairway init`: a project to begin with."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.starter import Settings


_QUESTIONS = {
    "location": "Azure region",
    "engine": (
        "Engine that runs the jobs (ssh: VMs of your own, slurm: a queue, batch: Azure Batch)"
    ),
    "size": "VM size (fairway sizes lists them)",
    "nodes": "How many nodes, at most",
    "budget": "Monthly budget in USD, for alerts",
    "email": "Email address of the owner",
}


def ask_for_the_rest(given: Mapping[str, Any]) -> dict[str, Any]:
    """The answers to all of the options; a person is asked for those that were not given.

    What was given is checked before anything is asked. An answer that cannot be is asked for again.
    """
    from fairway_runner.starter.answers import checked, of_account, usual

    found = {name: checked(name, value) for name, value in given.items() if value is not None}
    account = of_account()
    for name, question in _QUESTIONS.items():
        while name not in found:
            default = account.get(name) or usual(name, found.get("engine"))
            answer = typer.prompt(question, default=str(default))
            try:
                found[name] = checked(name, answer.strip())
            except UserError as error:
                for finding in error.findings:
                    typer.echo(f"  {finding.message}: {finding.hint}", err=True)
    return found


def command(
    folder: Annotated[
        Path, Argument(metavar="DIR", help="Folder of the project; created if it does not exist.")
    ] = Path(),
    name: Annotated[
        str | None, Option(help="Name of the environment; by default that of DIR.")
    ] = None,
    location: Annotated[str | None, Option(help="Azure region; by default southcentralus.")] = None,
    engine: Annotated[
        str | None, Option(help="The engine that runs the jobs: ssh (the default), slurm or batch.")
    ] = None,
    size: Annotated[str | None, Option(help="The VM size of the nodes; see fairway sizes.")] = None,
    nodes: Annotated[
        int | None, Option(help="Number of nodes; with slurm and batch the maximum.")
    ] = None,
    budget: Annotated[
        int | None, Option(help="Monthly budget in USD, for alerts; by default 1500.")
    ] = None,
    email: Annotated[
        str | None, Option(help="Email address of the owner, who gets the alerts.")
    ] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Ask nothing; take the defaults.")] = False,
) -> None:
    """Create a project: an environment, an example job and CI workflows.

    On a terminal it asks for what no option says, and suggests the region and the address that
    the Azure CLI has. Elsewhere it takes the defaults: one VM with one GPU.

    Writes cdktf.json, an environment, a job that trains on any machine,
    fairway.yaml, workflows for GitHub Actions, requirements.txt, .gitignore and a README.
    Your public SSH key goes into the environment if you have one. Existing files are never
    changed: if one has the same name, the command names it and writes nothing.
    """
    from fairway_core.environment.keys import own_public_keys
    from fairway_runner.starter import Settings, write_project

    try:
        keys = own_public_keys(Path.home())
    except UserError:
        keys = ()
    given: dict[str, Any] = {"engine": engine, "location": location, "size": size}
    given |= {"nodes": nodes, "budget": budget, "email": email}
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        given = ask_for_the_rest(given)
    settings = Settings.checked(name, folder, keys, given)
    for path in write_project(folder, settings):
        print(folder / path)
    _print_next(folder, settings)


def _print_next(folder: Path, settings: Settings) -> None:
    for finding in settings.known:
        print(f"\nnote: {finding.message}")
        print(f"  environments/{settings.name}.yaml has `fairway check` ignore `{finding.id}`")
    if settings.source.note:
        print(f"\nnote: {settings.source.note}")
    print("\nnext")
    if folder.resolve() != Path.cwd():
        print(f"  cd {shlex.quote(str(folder))}")
    print("  fairway submit jobs/classify/job.yaml --watch")
    print(f"  fairway check {settings.name}")
