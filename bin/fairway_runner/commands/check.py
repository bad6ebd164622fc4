"""`fairway check`: what is wrong with an environment before anything is deployed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairway_runner.commands.arguments import JsonOption

_FAILED = 2


def command(
    environment: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT", help="A file, or the name of one of ours: demo.")
    ],
    json_: JsonOption = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Leave this check out. Repeatable.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings.")] = False,
) -> None:
    """Look for mistakes in an environment file.

    Prints each with its line and how to mend it; docs/checks.md explains them all. Exits
    with 2 for an error, and with --strict with 1 for a warning.
    """
    from fairway_core.checks import check_environment, require_known
    from fairway_core.environment import read_environment
    from fairway_core.environment.selection import environment_file
    from fairway_core.findings import Severity, UserError
    from fairway_runner.ui.findings import finding_facts, print_findings

    require_known(ignore or ())
    try:
        loaded = read_environment(environment_file(environment))
        ignored = {*loaded.environment.checks.ignore, *(ignore or ())}
        findings = check_environment(loaded.environment, loaded.document, ignore=ignored)
    except UserError as error:
        findings = [*error.findings]
    if json_:
        print(json.dumps([finding_facts(finding) for finding in findings], indent=1))
    else:
        print_findings(findings, environment)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(_FAILED)
    raise typer.Exit(1 if findings and strict else 0)
