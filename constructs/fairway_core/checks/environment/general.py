"""Rules on the entire file: its text, the checks that it ignores, and its region."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.limits import regions, regions_without_zones
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.findings import Severity
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import Environment
    from fairway_core.yaml_text import DataPath

_EXPRESSION = re.compile(r"[$%]\{")


@check("unknown-region", Severity.WARNING, Subject.ENVIRONMENT)
def unknown_region(environment: Environment) -> Iterator[Violation]:
    """A region that the catalogue does not know: a typo, or newer than Fairway.

    Wrong:
        location: southcentralusa

    Right:
        location: southcentralus
    """
    location = environment.location
    if location not in regions():
        hint = "if Azure does have it, ignore this check: az account list-locations --output table"
        if near := did_you_mean(location, regions()):
            hint = f"{near}\n{hint}"
        yield Violation(f"the region `{location}` is not known", hint, ("location",))


@check("no-zones", Severity.WARNING, Subject.ENVIRONMENT)
def no_zones(environment: Environment) -> Iterator[Violation]:
    """A zone, or copies in several, in a region that is known to have none: Azure refuses it.

    Wrong:
        location: northcentralus
        zone: 1

    Right:
        location: northcentralus
        zone: none
    """
    if environment.location not in regions_without_zones():
        return
    zoned: dict[DataPath, bool] = {
        ("zone",): environment.zone != "none",
        ("storage", "replication"): "ZRS" in (environment.storage.replication or ""),
        **{
            ("filesystems", name, "replication"): each.is_zone_redundant
            for name, each in environment.filesystems.items()
        },
    }
    message = f"{environment.location} has no availability zones"
    for path in (path for path, is_zoned in zoned.items() if is_zoned):
        yield Violation(message, "set `zone: none`, and use LRS", path)


def _texts_in(value: Any, path: DataPath) -> Iterator[tuple[DataPath, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, item in value.items():
                yield (*path, key), key
                yield from _texts_in(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from _texts_in(item, (*path, index))


@check("terraform-expression", Severity.ERROR, Subject.ENVIRONMENT)
def terraform_expression(environment: Environment) -> Iterator[Violation]:
    """Text that Terraform would read as an expression and evaluate.

    Wrong:
        tags: {owner: research@example.com, ticket: "${upper(var.ticket)}"}

    Right:
        tags: {owner: research@example.com, ticket: "ML-1234"}
    """
    data = environment.model_dump(mode="json", exclude_defaults=True)
    for path, text in _texts_in(data, ()):
        if match := _EXPRESSION.search(text):
            yield Violation(
                f"Terraform would evaluate `{text[match.start() :][:60]}`",
                "write the value itself, or read it from a variable: ${env:NAME}",
                path,
            )


@check("unknown-check", Severity.ERROR, Subject.ENVIRONMENT)
def unknown_check(environment: Environment) -> Iterator[Violation]:
    """An ignored check that does not exist.

    Wrong:
        checks: {ignore: [no-bugdet]}

    Right:
        checks: {ignore: [no-budget]}
    """
    from fairway_core.checks.runner import unknown

    for index, message, hint in unknown(environment.checks.ignore):
        yield Violation(message, hint, ("checks", "ignore", index))
