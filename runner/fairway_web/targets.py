"""Where jobs can be sent: the targets, their nodes with what each runs, drain and resume."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.targets.lookup import all_targets
from fairway_runner.targets.nodes import act_on_node, node_actions, nodes_of, target_facts
from fairway_web.roles import audited, may
from fairway_web.run_actions import each_of, usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.target import Target
    from fairway_web.runs import Runs

_PATIENCE = 10.0  # seconds for a target to say which nodes it has
_FAILED = 5  # as commands end
_ACTIONS = ("drain", "resume")
_USUAL = ("name", "state", "address", "run", "reason")


def list_targets() -> list[dict[str, Any]]:
    """The targets, as `fairway targets list --offline --json` prints them."""
    return target_facts(list(all_targets().values()), ask=False)


def list_nodes(target: Target) -> list[dict[str, Any]]:
    """The nodes of a target as they are now; UserError where it does not tell."""
    with _installed():
        return list(nodes_of(target, _PATIENCE))


def page_facts(target: Target, runs: Runs) -> dict[str, Any]:
    """The page of a target: its nodes, and the runs on them that are known here."""
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
    facts["takes_jobs"] = bool(may("submit") and usable([target.name]))
    able = node_actions(target) if may("nodes") else ()
    facts["actions"] = [each for each in _ACTIONS if each in able]
    return facts


def act_on_nodes(target: Target, action: str, nodes: Sequence[str]) -> None:
    """Drains or resumes all of them, also where that fails for one; UserError that says which."""
    if action not in _ACTIONS:
        message = f"`{action}` is not an action for nodes"
        raise UserError.of("bad-value", message, "drain or resume it")

    def act(node: str) -> None:
        with audited(action, {"target": target.name, "node": node}), _installed():
            act_on_node(target, action, node)

    each_of(nodes, act)


@contextmanager
def _installed() -> Iterator[None]:
    """UserError where a package is missing with which a target is asked."""
    try:
        yield
    except ImportError as error:
        hint = "install it where the server runs; fairway doctor says what is missing"
        raise UserError.of("missing-extra", str(error), hint, exit_code=_FAILED) from None
