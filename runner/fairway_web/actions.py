"""Actions on runs, nodes and targets, and data of the pages on environments and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.checks import check_environment
from fairway_core.cost.cache import cached_prices
from fairway_core.cost.environment import line_items_of
from fairway_core.diagram import draw
from fairway_core.environment import load_environment, read_environment
from fairway_core.environment.selection import known_environments
from fairway_core.findings import Finding, UserError, each_of, finding_facts
from fairway_core.suggestions import did_you_mean
from fairway_runner.environment_costs import cost_facts
from fairway_runner.output_file import svg
from fairway_runner.quantities import parse_moment
from fairway_runner.runs import labels
from fairway_runner.runs.query import usage_of_runs
from fairway_runner.runs.usage import BY, require_group, run_cost_facts
from fairway_runner.submit.rerun import retry, targets_of
from fairway_runner.targets.lookup import all_targets, server_settings, uses_this_machine
from fairway_runner.targets.nodes import act_on_node, node_actions, nodes_of, target_facts
from fairway_web.roles import audit_and_note, audited, is_allowed, refused, request_context

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.runs.store import Run
    from fairway_web.runs import Runs


def environment_file(name: str) -> Path:
    """Returns the file of an environment. Raises UserError for an unknown one."""
    known = known_environments()
    if name not in known:
        message = f"no environment is called `{name[:60]}`"
        raise UserError.of("unknown-environment", message, did_you_mean(name, known))
    return known[name]


def checked(file: Path) -> Sequence[Finding]:
    """Returns the findings of `fairway check`."""
    try:
        loaded = read_environment(file)
        ignored = set(loaded.environment.checks.ignore)
        return check_environment(loaded.environment, loaded.document, ignore=ignored)
    except UserError as error:
        return error.findings


def cost(file: Path) -> dict[str, Any]:
    """Returns the answer of `fairway cost --offline --json`."""
    loaded = load_environment(file)
    return cost_facts(loaded, line_items_of(loaded), cached_prices())


@lru_cache(maxsize=64)
def draw_diagram(file: Path, _changed: int) -> bytes:
    """Returns a diagram of an environment as SVG, drawn once for each time of its file's change."""
    return svg(draw(load_environment(file), file.stem)).encode()


def run_costs(runs: Runs, by: str, since: str) -> dict[str, Any]:
    """Returns the answer of `fairway cost --runs --json` for the runs known here."""
    require_group("by", by, ("run", *BY))
    prices, kind = cached_prices(), None if by == "run" else by
    held = usage_of_runs(runs, prices, since=parse_moment("since", since) if since else None)
    facts = run_cost_facts(held.usages, by=kind, currency=prices.currency)
    return {**facts, "findings": [finding_facts(each) for each in held.damaged]}


def metrics(runs: Runs) -> str:
    """Returns the runs by state and target, in Prometheus' text format."""
    counts = Counter[tuple[str, str]]()
    for run in runs.unsorted():
        with suppress(UserError, OSError):  # `list` reports the error
            counts[run.record.target, run.state] += 1
    lines = ["# HELP fairway_runs Runs of this project.", "# TYPE fairway_runs gauge"]
    for (target, state), count in sorted(counts.items()):
        label = target.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'fairway_runs{{target="{label}",state="{state}"}} {count}')
    return "\n".join(lines) + "\n"


def may_steer(run: Run) -> bool:
    """Returns True for the caller's own run, and for every run if their role suffices."""
    if is_allowed("steer-all"):
        return True
    who = labels.submitter(run.folder)
    return is_allowed("steer") and who is not None and who["id"] == request_context().person.id


def cancel_run(run: Run, task: str | None = None) -> None:
    """Ends it, or one of its tasks, and waits for that. Raises UserError if the caller may not."""
    with audit_and_note("cancel" if task is None else f"cancel task {task[:20]}", run):
        if not may_steer(run):
            raise refused("steer-all")
        run.cancel(task)


def retry_run(run: Run) -> dict[int, int]:
    """Runs its unsuccessful tasks again; see `retry`. Raises UserError if the caller may not, or
    may no longer use its targets."""
    with audit_and_note("retry", run):
        if not may_steer(run):
            raise refused("steer-all")
        require_targets(targets_of(run))  # the submitter may no longer be an Operator
        return retry(run)


def require_targets(targets: Sequence[Target]) -> None:
    """Raises UserError for a target that the caller may not use: on this machine a program could
    read everything that the server can, including its tokens for Azure."""
    if is_allowed("here"):
        return
    if any(map(uses_this_machine, targets)):
        message = "your role does not let you run jobs on the machine of the server"
        hint = "name another target, or ask for the role Operator"
        raise UserError.of("missing-role", message, hint)
    offered = usable_targets([each.name for each in targets])
    if lacking := [each.name for each in targets if each.name not in offered]:
        message = f"your role does not let you use the target `{lacking[0]}`"
        hint = "ask an Operator to add it to `serve: {targets: [NAME]}` in fairway.yaml"
        if known := server_settings().targets:
            hint = f"name one of these: {', '.join(known)}; or {hint}"
        raise UserError.of("missing-role", message, hint)


def usable_targets(names: Iterable[str]) -> list[str]:
    """Returns those of the targets on which the caller may submit jobs."""
    offered = server_settings().targets
    return [each for each in names if is_allowed("here") or each in offered]


_PATIENCE = 10.0  # seconds for a target to list its nodes
_ACTIONS = ("drain", "resume")
_USUAL = ("name", "state", "address", "run", "reason")


def list_targets() -> list[dict[str, Any]]:
    """Returns the targets, as `fairway targets list --offline --json` prints them."""
    return target_facts(list(all_targets().values()), ask=False)


def list_nodes(target: Target) -> list[dict[str, Any]]:
    """Returns the present nodes of a target. Raises UserError if it does not answer."""
    return nodes_of(target, _PATIENCE)


def page_facts(target: Target, runs: Runs) -> dict[str, Any]:
    """Returns the data of a target's page: its nodes, and the runs on them that are known here."""
    known = next(each for each in list_targets() if each["name"] == target.name)
    facts: dict[str, Any] = {"target": known, "nodes": [], "findings": ()}
    try:
        facts["nodes"] = list_nodes(target)
    except UserError as error:
        facts["findings"] = error.findings
    nodes = facts["nodes"]
    names = [name for node in nodes for name in node if name not in _USUAL]
    facts["columns"] = list(dict.fromkeys(names))
    here = {run.id for run in runs.unsorted()} if nodes else set()
    facts["known"] = {node["run"] for node in nodes} & here
    facts["takes_jobs"] = bool(is_allowed("submit") and usable_targets([target.name]))
    able = node_actions(target) if is_allowed("nodes") else ()
    facts["actions"] = [each for each in _ACTIONS if each in able]
    return facts


def act_on_nodes(target: Target, action: str, nodes: Sequence[str]) -> None:
    """Drains or resumes all of them. Raises UserError that says for which that failed."""
    if action not in _ACTIONS:
        message = f"`{action}` is not an action for nodes"
        raise UserError.of("bad-value", message, "drain or resume it")

    def act(node: str) -> None:
        with audited(action, {"target": target.name, "node": node}):
            act_on_node(target, action, node)

    each_of(nodes, act)
