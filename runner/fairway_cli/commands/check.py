"""`fairway check`: what is wrong with an environment before anything is deployed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, EnvironmentArgument, JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_core.environment import LoadedEnvironment
    from fairway_core.environment.egress import Outbound
    from fairway_core.findings import Finding
    from fairway_runner.live.requirements import Offer

_FAILED = 2


def command(
    environment: EnvironmentArgument = None,
    json_: JsonOption = False,
    sarif: Annotated[
        bool, Option("--sarif", help="Print SARIF 2.1.0, for code scanning and editors.")
    ] = False,
    ignore: Annotated[
        list[str] | None, Option(metavar="ID", help="Skip this check. Repeatable.")
    ] = None,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if there are warnings.")] = False,
    live: Annotated[
        bool, Option("--live", help="Also ask Azure about sizes, quota, images and providers.")
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
    from fairway_cli.ui.reviews import print_findings
    from fairway_core.checks import require_known
    from fairway_core.environment.selection import environment_file
    from fairway_core.findings import Severity

    require_known(ignore or ())
    file = environment_file(environment)
    checked = _checked(file, ignore or (), live=live)
    if sarif:
        from fairway_core.checks.sarif import sarif as as_sarif

        print(json.dumps(as_sarif(checked.findings), indent=1))
    elif json_:
        print(json.dumps(_facts(checked, live=live), indent=1))
    else:
        from fairway_cli.ui.catalogue import offer_table, outbound_table

        if checked.offers:
            print(offer_table(checked.offers), end="\n\n")
        if checked.outbound:
            print(outbound_table(checked.outbound), end="\n\n")
        print_findings(checked.findings, environment or file.stem)
    if any(finding.severity is Severity.ERROR for finding in checked.findings):
        raise Exit(checked.failed or _FAILED)
    raise Exit(1 if checked.findings and strict else 0)


@dataclass
class _Checked:
    """Result of checking an environment: the findings, Azure's offers for it, and the names that it
    needs on the internet; `failed` is the exit code if Azure could not be asked."""

    findings: list[Finding]
    offers: list[Offer] = field(default_factory=list)
    outbound: list[Outbound] = field(default_factory=list)
    failed: int = 0


def _checked(file: Path, ignore: Sequence[str], *, live: bool) -> _Checked:
    from fairway_core.checks import check_environment
    from fairway_core.environment import read_environment
    from fairway_core.environment.egress import outbound
    from fairway_core.findings import UserError
    from fairway_stacks.boot_data import boot_findings

    try:
        loaded = read_environment(file)
        ignored = {*loaded.environment.checks.ignore, *ignore}
        findings = check_environment(loaded.environment, loaded.document, ignore=ignored)
        findings += boot_findings(loaded.environment, loaded.document)
    except UserError as error:
        return _Checked([*error.findings])
    checked = _Checked(findings, outbound=outbound(loaded.environment))
    if live:
        found, checked.offers, checked.failed = _ask(loaded)
        checked.findings += [finding for finding in found if finding.id not in ignored]
    return checked


def _facts(checked: _Checked, *, live: bool) -> object:
    """Returns the facts that `--json` prints."""
    from fairway_cli.ui.catalogue import offer_facts
    from fairway_core.findings import finding_facts

    facts = [finding_facts(finding) for finding in checked.findings]
    if not live:
        return facts
    return {
        "findings": facts,
        "sizes": [offer_facts(each) for each in checked.offers],
        "outbound": [asdict(each) for each in checked.outbound],
    }


def _ask(loaded: LoadedEnvironment) -> tuple[list[Finding], list[Offer], int]:
    """Returns Azure's findings about the environment, each at its line, its offers, and 0.

    If Azure cannot be asked: the reason as findings, and its exit code.
    """
    from fairway_core.findings import UserError
    from fairway_runner.doctor.checks import chosen_subscription
    from fairway_runner.live.azure_queries import ask_azure
    from fairway_runner.live.management import signed_in_to

    try:
        with signed_in_to(chosen_subscription()) as azure:
            asked, offers = ask_azure(loaded.environment, azure)
    except UserError as error:
        return [*error.findings], [], error.exit_code
    findings = []
    for finding in asked:
        path = tuple(finding.path.split("."))
        location = loaded.document.location(path, of_key=True) if finding.path else None
        findings.append(replace(finding, location=location) if location else finding)
    return findings, offers, 0
