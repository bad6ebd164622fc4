"""All checks: the modules with their rules, and functions that run the checks of one subject."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import REGISTERED, Check, Subject, parameters
from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Collection, Hashable, Iterator, Mapping

    from fairway_core.catalog import VmSize
    from fairway_core.checks.check import CheckContext
    from fairway_core.documents import Document
    from fairway_core.environment import Environment
    from fairway_core.findings import Location
    from fairway_core.target import Target
    from fairway_core.yaml_text import DataPath


RULES: Mapping[Subject, tuple[str, ...]] = {
    Subject.ENVIRONMENT: (
        *("environment.general", "environment.clusters", "environment.ownership"),
    ),
    Subject.TERRAFORM: (
        *("terraform.network", "terraform.data", "terraform.compute", "terraform.general"),
    ),
    Subject.PLAN: (
        *("plan.changes", "plan.nodes", "plan.kubernetes", "plan.servers", "plan.access"),
    ),
    Subject.JOB: ("job",),
}
"""The modules with the rules, by subject."""
ENGINES = ("slurm", "batch", "kubernetes")
"""The engines with rules of their own, which are beside their kind of cluster."""


def modules_of(subject: Subject) -> list[str]:
    """Returns the full names of the modules with the rules of a subject."""
    found = [f"fairway_core.checks.{each}" for each in RULES[subject]]
    if subject is Subject.ENVIRONMENT:
        found += [f"fairway_core.environment.clusters.{each}.checks" for each in ENGINES]
    return found


def all_checks(subject: Subject | None = None) -> tuple[Check, ...]:
    """Returns all checks, or those of one subject, in the order of their modules."""
    for each in [subject] if subject else Subject:
        for module in modules_of(each):
            import_module(module)
    found = (one for one in REGISTERED.values() if subject in (None, one.subject))
    return tuple(sorted(found, key=_position))


def _position(check: Check) -> tuple[int, int]:
    """Returns a sort key by subject and module, which does not depend on the order of imports."""
    module = check.rule.__module__
    # A rule in another module, such as a test's, comes last.
    return list(Subject).index(check.subject), [*modules_of(check.subject), module].index(module)


def unknown(ids: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Yields the unknown ids: the position of each, a message, and a hint with the nearest id."""
    from fairway_core.checks.live import LIVE

    if not REGISTERED.keys() >= set(ids):
        all_checks()  # imports the rest, which may have these ids
    known = (*REGISTERED, *LIVE)
    for position, each in enumerate(ids):
        if each not in known:
            from fairway_core.suggestions import did_you_mean

            hint = did_you_mean(each, known) or "docs/checks.md lists them"
            yield position, f"there is no check `{each}`", hint


def require_known(ids: Collection[str]) -> None:
    """Raises UserError, with the nearest id, for an unknown one."""
    for _, message, hint in unknown(ids):
        raise UserError.of("unknown-check", message, hint)


def check_environment(
    environment: Environment,
    document: Document | None = None,
    *,
    ignore: Collection[str] = (),
    today: datetime.date | None = None,
) -> list[Finding]:
    """Runs the environment checks and returns their findings, in the order of `document`;
    retirements are compared with `today`, by default the current date."""
    if today is None:
        import datetime

        today = datetime.datetime.now(datetime.UTC).date()
    parts = {"environment": environment, "today": today}
    found = _run(Subject.ENVIRONMENT, parts, ignore, document)
    return sorted(found, key=lambda finding: finding.position)


def check_clusters(
    clusters: Mapping[str, tuple[VmSize, int]], *, ignore: Collection[str] = ()
) -> list[Finding]:
    """Runs the environment checks that need only a cluster's VM size and the nodes of one job, by
    the path of each cluster, and returns their findings."""
    import_module("fairway_core.checks.environment.clusters")
    return [
        Finding(check.id, violation.message, violation.hint, path, check.severity)
        for check in REGISTERED.values()
        if parameters(check.rule) == ("size", "nodes") and check.id not in ignore
        for path, (size, nodes) in clusters.items()
        for violation in check.rule(size, nodes)
    ]


def check_stack(
    stack: Mapping[str, Any],
    context: CheckContext,
    *,
    ignore: Collection[str] = (),
    name: str = "",
    taken: dict[Hashable, str] | None = None,
) -> list[Finding]:
    """Runs the Terraform checks on a stack's `cdk.tf.json` and returns their findings, whose paths
    begin with the resource's address. Stacks that are compared with each other have a `name`, and
    one dict `taken`."""
    from fairway_core.checks.terraform.stack import without_nulls

    plain = without_nulls(stack)
    providers = plain.get("provider", {}).get("azurerm", ())
    own: Mapping[str, Any] = next((each for each in providers if "alias" not in each), {})
    parts = {
        "resources": plain.get("resource", {}),
        "outputs": plain.get("output", {}),
        "context": context,
        "stack": name,
        "subscription": own.get("subscription_id", ""),
        "taken": {} if taken is None else taken,
    }
    return list(_run(Subject.TERRAFORM, parts, ignore))


def check_plan(
    plan: Mapping[str, Any],
    *,
    others: Collection[Mapping[str, Any]] = (),
    own: Collection[str] = (),
) -> list[Finding]:
    """Runs the plan checks on a plan from `terraform show -json` and returns their findings.
    `others` are the changes in other stacks' plans, and `own` the ids of the environment's own
    identities."""
    from fairway_core.checks.resource_change import ResourceChange

    parts = {
        "changes": tuple(map(ResourceChange.of, plan.get("resource_changes", ()))),
        "outputs": plan.get("output_changes") or {},
        "others": tuple(map(ResourceChange.of, others)),
        "own": frozenset(own),
    }
    return list(_run(Subject.PLAN, parts))


def check_job(
    job: Mapping[str, Any], target: Target, document: Document | None = None
) -> list[Finding]:
    """Runs the job checks on a job without defaults and its target; returns the findings."""
    return list(_run(Subject.JOB, {"job": job, "target": target}, document=document))


def _run(
    subject: Subject,
    parts: Mapping[str, Any],
    ignore: Collection[str] = (),
    document: Document | None = None,
) -> Iterator[Finding]:
    """Yields the findings of all checks of the subject, with their lines in the document."""
    for check in all_checks(subject):
        if check.id in ignore:
            continue
        for path, within, finding in check.findings(parts):
            if document is None:
                yield finding
                continue
            location = _line_of(path, document)
            if within:
                location = document.part(location, within)
            yield replace(finding, location=location)


def _line_of(path: DataPath, document: Document) -> Location:
    """Returns the location of the path, or of its part in the document: defaults have no line."""
    value, present = document.data, 0
    for step in path:
        holds = isinstance(value, dict) and step in value
        if not holds and not (isinstance(value, list) and isinstance(step, int)):
            break
        value, present = value[step], present + 1
    # A mapping is shown by its key, not by its first line.
    return document.location(path[:present], of_key=isinstance(value, dict))
