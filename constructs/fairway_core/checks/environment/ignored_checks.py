"""Rules on the checks that an environment does without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks.check import REGISTERED, Fault, Subject, check
from fairway_core.checks.live import LIVE
from fairway_core.findings import Severity
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import EnvironmentSubject


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
