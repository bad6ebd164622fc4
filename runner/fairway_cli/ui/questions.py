"""What `fairway init` asks a person, in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
