"""`fairway check`: what is wrong with an environment before anything is deployed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from fairway_cli.commands.arguments import DeadlineOption, EnvironmentArgument, JsonOption

if TYPE_CHECKING:
    from fairway_core.environment import LoadedEnvironment
    from fairway_core.environment.egress import Outbound
    from fairway_core.findings import Finding
    from fairway_runner.live.offers import Offer

_FAILED = 2


def command(
    environment: EnvironmentArgument = None,
    json_: JsonOption = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Skip this check. Repeatable.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there are warnings.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also ask Azure about sizes, quota, images and providers."),
    ] = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Check an environment file for mistakes.

    Prints each with its line and how to fix it; docs/checks.md explains all checks. Exits with
    2 for an error, and with --strict with 1 for a warning. --live asks the subscription whether
    it has what the environment needs; it needs `az login`, changes nothing, and warns about what
    you are not allowed to see. It also lists, for each VM size, the zones and the quota that you
    have, and the most similar size that you may use where that is too little.

    Where the way out is a firewall, or the network is there already, it lists what machines ask
    for on the internet.
    """
    from fairway_cli.ui.findings import print_findings
    from fairway_cli.ui.offers import offer_facts, offer_table
    from fairway_cli.ui.outbound import outbound_table
    from fairway_core.checks import check_environment, require_known
    from fairway_core.environment import read_environment
    from fairway_core.environment.egress import outbound
    from fairway_core.environment.selection import environment_file
    from fairway_core.findings import Severity, UserError, finding_facts

    require_known(ignore or ())
    failed = 0
    offers: list[Offer] = []
    names: list[Outbound] = []
    file = environment_file(environment)
    try:
        loaded = read_environment(file)
        ignored = {*loaded.environment.checks.ignore, *(ignore or ())}
        findings = check_environment(loaded.environment, loaded.document, ignore=ignored)
    except UserError as error:
        findings = [*error.findings]
    else:
        names = outbound(loaded.environment)
        if live:
            found, offers, failed = _ask(loaded)
            findings += [finding for finding in found if finding.id not in ignored]
    if json_:
        facts = [finding_facts(finding) for finding in findings]
        asked = {
            "findings": facts,
            "sizes": [offer_facts(each) for each in offers],
            "outbound": [asdict(each) for each in names],
        }
        print(json.dumps(asked if live else facts, indent=1))
    else:
        if offers:
            print(offer_table(offers), end="\n\n")
        if names:
            print(outbound_table(names), end="\n\n")
        print_findings(findings, environment or file.stem)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(failed or _FAILED)
    raise typer.Exit(1 if findings and strict else 0)


def _ask(loaded: LoadedEnvironment) -> tuple[list[Finding], list[Offer], int]:
    """What Azure says against the environment, each at its line, what it offers, and 0.

    Where Azure cannot be asked: why, and the exit code of that.
    """
    from fairway_core.findings import UserError
    from fairway_runner.doctor.subscription import open_subscription
    from fairway_runner.live.azure_queries import ask_azure

    try:
        azure = open_subscription()
        try:
            asked = ask_azure(loaded.environment, azure)
        finally:
            azure.close()
    except UserError as error:
        return [*error.findings], [], error.exit_code
    return [_at_its_line(finding, loaded) for finding in asked.findings], asked.offers, 0


def _at_its_line(finding: Finding, loaded: LoadedEnvironment) -> Finding:
    if not finding.path:
        return finding
    place = loaded.document.location(tuple(finding.path.split(".")), of_key=True)
    return replace(finding, location=place)
