"""Rules on the file: text that goes into Terraform as it stands, and checks that it ignores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import REGISTERED, Fault, Subject, check
from fairway_core.checks.live import LIVE
from fairway_core.findings import Severity
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_core.checks.check import EnvironmentSubject, Occurrence
    from fairway_core.yaml_text import DataPath

_EXPRESSION = re.compile(r"[$%]\{")


def _texts(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    yield from _texts_in(subject.environment.model_dump(mode="json", exclude_defaults=True), ())


def _texts_in(value: Any, path: DataPath) -> Iterator[Occurrence]:
    match value:
        case str():
            yield path, {"text": value}
        case dict():
            for key, item in value.items():
                yield (*path, key), {"text": key}
                yield from _texts_in(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from _texts_in(item, (*path, index))


@check("terraform-expression", Severity.ERROR, Subject.ENVIRONMENT, at=_texts)
def terraform_expression(text: str) -> Iterator[Fault]:
    """Text that Terraform would read as an expression and evaluate.

    Wrong:
        tags: {owner: research@example.com, ticket: "${upper(var.ticket)}"}

    Right:
        tags: {owner: research@example.com, ticket: "ML-1234"}
    """
    if match := _EXPRESSION.search(text):
        yield Fault(
            f"Terraform would evaluate `{text[match.start() :][:60]}`",
            "write the value itself, or read it from a variable: ${env:NAME}",
        )


def _ignored(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    if not subject.environment.checks.ignore:
        return
    from fairway_core.checks.running import all_checks

    all_checks()
    for index, id_ in enumerate(subject.environment.checks.ignore):
        yield ("checks", "ignore", index), {"id": id_, "known": [*REGISTERED, *LIVE]}


@check("unknown-check", Severity.ERROR, Subject.ENVIRONMENT, at=_ignored)
def unknown_check(id: str, known: Collection[str]) -> Iterator[Fault]:  # noqa: A002
    """An ignored check that does not exist.

    Wrong:
        checks: {ignore: [no-bugdet]}

    Right:
        checks: {ignore: [no-budget]}
    """
    if id not in known:
        hint = did_you_mean(id, known) or "docs/checks.md lists them"
        yield Fault(f"there is no check `{id}`", hint)
