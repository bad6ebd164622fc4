"""`fairway doctor`: what is missing before anything can be deployed, or a job can run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from fairway_cli.commands.arguments import (
    DeadlineOption,
    JsonOption,
    complete_environments,
    complete_targets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import Environment
    from fairway_runner.doctor.checks import Examined

_MISSING = 4


def command(
    target: Annotated[
        str | None,
        Argument(
            metavar="TARGET",
            help="Check this target instead.",
            show_default=False,
            autocompletion=complete_targets,
        ),
    ] = None,
    environment: Annotated[
        str | None,
        Option(
            metavar="ENVIRONMENT",
            help="By default FAIRWAY_ENVIRONMENT, then the project's own.",
            autocompletion=complete_environments,
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Check the prerequisites of a deployment, and print a fix for each one missing.

    Checks Node.js, Terraform, the cdktf command line, the Azure sign-in and subscription, and
    what the environment needs there: resource providers, sizes, quota and images. With TARGET
    it checks that target. Exits with 4 if something is missing.
    """
    examined = []
    for each in _of_target(target) if target else _of_environment(environment):
        examined.append(each)
        if not json_:
            _print(each)
    if json_:
        from fairway_core.findings import finding_facts

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
        raise Exit(_MISSING)


def _of_environment(choice: str | None) -> Iterator[Examined]:
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file
    from fairway_core.findings import UserError
    from fairway_runner.doctor.checks import Examined, examine_programs, examine_subscription

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
    from fairway_core.findings import UserError
    from fairway_runner.doctor.checks import Examined
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.targets.lookup import all_targets, find_target

    if name not in all_targets() and name in known_environments():
        message = f"`{name}` is an environment, not a target"
        raise UserError.of("unknown-target", message, f"fairway doctor --environment {name}")
    findings = tuple(engine_for(find_target(name)).doctor())
    yield Examined(f"target {name}", "has problems" if findings else "ready", findings)


def _print(examined: Examined) -> None:
    from fairway_core.findings import format_finding

    mark = "FAILED" if examined.missing else "note" if examined.findings else "ok"
    print(f"{mark:<8} {examined.what}: {examined.found}")
    for finding in examined.findings:
        text = format_finding(finding)
        print("\n".join(f"         {line}" for line in text.splitlines()))
