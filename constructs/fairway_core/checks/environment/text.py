"""Rules on text that goes into Terraform as it stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import EnvironmentSubject
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
