"""Commands for writing and checking an environment."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Exit, Option

from fairway_cli.commands import arguments
from fairway_core.findings import Finding, Severity, UserError, finding_facts, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.environment import Environment, LoadedEnvironment
    from fairway_core.environment.egress import Outbound
    from fairway_runner.live.doctor import Examined
    from fairway_runner.live.requirements import Offer

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
    """Returns the answers to all of the options, and asks the user for missing ones.

    The given ones are checked before any question. An invalid answer is asked for again.
    """
    from fairway_runner.starter.answers import account_answers, checked, default_answer

    found = {name: checked(name, value) for name, value in given.items() if value is not None}
    account = account_answers()
    for name, question in _QUESTIONS.items():
        while name not in found:
            default = account.get(name) or default_answer(name, found.get("engine"))
            answer = typer.prompt(question, default=str(default))
            try:
                found[name] = checked(name, answer.strip())
            except UserError as error:
                for finding in error.findings:
                    typer.echo(f"  {finding.message}: {finding.hint}", err=True)
            except UnicodeEncodeError:
                typer.echo("  this is not UTF-8: type it again", err=True)
    return found


def init(
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
    from fairway_runner.starter.project import Settings, write_project

    try:
        keys = own_public_keys(Path.home())
    except UserError:
        keys = ()
    given: dict[str, Any] = {"engine": engine, "location": location, "size": size}
    given |= {"nodes": nodes, "budget": budget, "email": email}
    if not yes and sys.stdin.isatty():
        given = ask_for_the_rest(given)
    settings = Settings.checked(name, folder, keys, given)
    for path in write_project(folder, settings):
        print(folder / path)
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


def check(
    environment: arguments.EnvironmentArgument = None,
    json_: arguments.JsonOption = False,
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
) -> None:
    """Check an environment file for mistakes.

    Prints each with its line and how to fix it; docs/checks.md explains all checks. Exits with
    2 for an error, and with --strict with 1 for a warning. --live asks the subscription whether
    it has what the environment needs; it needs `az login`, changes nothing, and warns about what
    you are not allowed to see. It also lists, for each VM size, the zones and the quota that you
    have, and the most similar size that you may use where that is too little.

    Where the way out is a firewall, or the network is an existing one, it lists what machines ask
    for on the internet.
    """
    from fairway_cli.ui.catalogue import offer_facts, offer_table, outbound_table
    from fairway_cli.ui.reviews import print_findings
    from fairway_core.checks import check_environment, require_known
    from fairway_core.checks.sarif import sarif as as_sarif
    from fairway_core.environment import read_environment
    from fairway_core.environment.egress import outbound
    from fairway_core.environment.selection import environment_file
    from fairway_stacks.boot_data import boot_findings

    require_known(ignore or ())
    if sarif and json_:
        raise UserError.of("bad-value", "--json and --sarif cannot be combined", "give one of them")
    file = environment_file(environment)
    offers: list[Offer] = []
    names: list[Outbound] = []
    failed = 0
    try:
        loaded = read_environment(file)
        ignored = {*loaded.environment.checks.ignore, *(ignore or ())}
        findings = check_environment(loaded.environment, loaded.document, ignore=ignored)
        findings += boot_findings(loaded.environment, loaded.document)
    except UserError as error:
        findings = [*error.findings]
    else:
        names = outbound(loaded.environment)
        if live:
            of_azure, offers, failed = _ask(loaded)
            findings += [finding for finding in of_azure if finding.id not in ignored]
    if sarif:
        print(json.dumps(as_sarif(findings), indent=1))
    elif json_:
        found = [finding_facts(finding) for finding in findings]
        asked = {"sizes": [*map(offer_facts, offers)], "outbound": [*map(asdict, names)]}
        print(json.dumps({"findings": found, **asked} if live else found, indent=1))
    else:
        if offers:
            print(offer_table(offers), end="\n\n")
        if names:
            print(outbound_table(names), end="\n\n")
        print_findings(findings, environment or file.stem)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise Exit(failed or 2)
    raise Exit(1 if findings and strict else 0)


def _ask(loaded: LoadedEnvironment) -> tuple[list[Finding], list[Offer], int]:
    """Returns Azure's findings about the environment, each at its line, its offers, and 0.

    If Azure cannot be asked: the reason as findings, and its exit code.
    """
    from fairway_runner.live.azure_queries import ask_azure
    from fairway_runner.live.doctor import chosen_subscription
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


def doctor(
    target: Annotated[
        str | None,
        Argument(
            metavar="TARGET",
            help="Check this target instead.",
            autocompletion=arguments.complete_targets,
        ),
    ] = None,
    environment: Annotated[
        str | None,
        Option(
            metavar="ENVIRONMENT",
            help="By default FAIRWAY_ENVIRONMENT, then the project's own.",
            autocompletion=arguments.complete_environments,
        ),
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Check the prerequisites of a deployment, and print a fix for each one missing.

    Checks Node.js, Terraform, the cdktf command line, the Azure sign-in and subscription, and
    what the environment needs there: resource providers, sizes, quota and images. With TARGET
    it checks that target. Exits with 4 if something is missing, and with 5 for a fault of TARGET.
    """
    examined = []
    for each in _of_target(target) if target else _of_environment(environment):
        examined.append(each)
        if not json_:
            mark = "FAILED" if each.missing else "note" if each.findings else "ok"
            print(f"{mark:<8} {each.what}: {each.found}")
            for finding in each.findings:
                print(textwrap.indent(format_finding(finding), " " * 9))
    if json_:
        facts = [
            {
                "what": each.what,
                "found": each.found,
                "ok": not each.missing,
                "findings": [finding_facts(finding) for finding in each.findings],
            }
            for each in examined
        ]
        print(json.dumps(facts, indent=1))
    if any(each.missing for each in examined):
        # These concern this machine rather than the target.
        lacks = {"missing-tool", "no-kubeconfig"} & {
            f.id for each in examined for f in each.findings
        }
        raise Exit(4 if lacks or not target else 5)


def _of_environment(choice: str | None) -> Iterator[Examined]:
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file
    from fairway_runner.live.doctor import Examined, examine_programs, examine_subscription

    loaded: Environment | None = None
    try:
        loaded = load_environment(environment_file(choice))
        yield Examined("environment", loaded.name)
    except UserError as error:
        yield Examined("environment", "not right", error.findings)
    yield from examine_programs()
    yield from examine_subscription(loaded)


def _of_target(name: str) -> Iterator[Examined]:
    from fairway_core.environment.selection import known_environments
    from fairway_runner.live.doctor import Examined
    from fairway_runner.targets.lookup import all_targets

    if name not in all_targets() and name in known_environments():
        message = f"`{name}` is an environment, not a target"
        raise UserError.of("unknown-target", message, f"fairway doctor --environment {name}")
    findings = tuple(arguments.engine_of(name).doctor())
    yield Examined(f"target {name}", "has problems" if findings else "ready", findings)


def sizes(
    rdma: Annotated[bool, Option("--rdma", help="Only sizes with InfiniBand.")] = False,
    gpu: Annotated[
        str | None, Option(metavar="NAME", help="Only sizes with this GPU, such as H100.")
    ] = None,
    json_: arguments.JsonOption = False,
) -> None:
    """List the VM sizes that Fairway knows.

    Shows the GPUs, memory and InfiniBand of each, and whether Azure still offers it.
    """
    from fairway_cli.ui.catalogue import select, size_facts, size_table
    from fairway_core.catalog import vm_sizes

    sizes = select(vm_sizes().values(), rdma=rdma, gpu=gpu)
    print(json.dumps([*map(size_facts, sizes)], indent=1) if json_ else size_table(sizes))


class Kind(StrEnum):
    """The kinds of files."""

    ENVIRONMENT = "environment"
    JOB = "job"


def schema(kind: Annotated[Kind, Argument(help="Which kind of file.")]) -> None:
    """Print the JSON schema of environment files or job files, for editors.

    Save it, and name it in the first line of a file:
    # yaml-language-server: $schema=environment.schema.json
    """
    if kind is Kind.ENVIRONMENT:
        from fairway_core.environment.schema import environment_schema as schema
    else:
        from fairway_runner.jobs.steps import job_schema as schema
    print(json.dumps(schema(), indent=1, ensure_ascii=False))
