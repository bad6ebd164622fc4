"""All checks: the modules that hold rules, and look-ups over them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fairway_core.checks.check import REGISTERED, Check, Subject
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RULES: Mapping[Subject, tuple[str, ...]] = {
    Subject.ENVIRONMENT: (
        "location",
        "clusters",
        "slurm",
        "kubernetes",
        "filesystems",
        "ownership",
        "policies",
        "text",
        "ignored_checks",
    ),
    Subject.TERRAFORM: ("network", "data", "compute", "general"),
    Subject.PLAN: (
        "changes",
        "locks",
        "nodes",
        "kubernetes",
        "servers",
        "infiniband",
        "access",
        "grants",
    ),
    Subject.JOB: ("secrets", "nodes", "launcher", "variables"),
}
"""The modules that hold the rules, in the folder of their subject."""


def all_checks(subject: Subject | None = None) -> tuple[Check, ...]:
    """Every check, or those of one subject, in the order of their modules."""
    for each in [subject] if subject else Subject:
        for module in RULES[each]:
            import_module(f"fairway_core.checks.{each.value}.{module}")
    found = (one for one in REGISTERED.values() if subject in (None, one.subject))
    return tuple(sorted(found, key=_position))


def _position(check: Check) -> tuple[int, int]:
    """Subject and module; not the order in which modules happened to be imported."""
    module = check.rule.__module__.rpartition(".")[2]
    modules = RULES[check.subject]
    # A rule that stands elsewhere, as a test's may, comes last.
    return list(Subject).index(check.subject), [*modules, module].index(module)


def require_known(ids: Iterable[str]) -> None:
    """Raises UserError, with the nearest id, for one that no check has."""
    from fairway_core.checks.live import LIVE

    known = [*(one.id for one in all_checks()), *LIVE]
    for id in ids:  # noqa: A001
        if id not in known:
            from fairway_core.suggestions import did_you_mean

            hint = did_you_mean(id, known) or "docs/checks.md lists them"
            raise UserError.of("unknown-check", f"there is no check `{id}`", hint)
