"""Where jobs can be sent: the targets, their nodes with what each runs, drain and resume."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fairway_core.findings import UserError
from fairway_runner.targets.lookup import all_targets, find_target
from fairway_runner.targets.nodes import act_on_node, node_actions, nodes_of, target_facts
from fairway_web.acting import acting, reading
from fairway_web.html import fragment, page
from fairway_web.roles import audited, may
from fairway_web.steering import usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.requests import Request

    from fairway_core.target import Target
    from fairway_web.project import Runs

_PATIENCE = 10.0  # seconds for a target to say which nodes it has
_FAILED = 5  # as commands end
_ACTIONS = ("drain", "resume")


class Targets:
    """The handlers, pages and REST."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def routes(self) -> list[Route]:
        """What is shown, and what its buttons call."""
        return [
            Route("/targets", self.list_page),
            Route("/targets/{target}", self.page),
            Route("/targets/{target}", self.act, methods=["POST"]),
        ]

    def rest_routes(self) -> list[Route]:
        """What is answered below `/api/v1`."""
        return [
            Route("/targets", self.list),
            Route("/targets/{target}/nodes", self.nodes),
            Route("/targets/{target}/nodes/{node}/{action}", self.act_on_node, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """As `fairway targets list --offline --json` prints them."""
        return JSONResponse(await reading(_all))

    async def nodes(self, request: Request) -> Response:
        """As `fairway nodes list --json` prints them."""
        target = await reading(find_target, request.path_params["target"])
        return JSONResponse(await acting(_nodes, target))

    async def act_on_node(self, request: Request) -> Response:
        """Drains or resumes one."""
        target = await reading(find_target, request.path_params["target"])
        node, action = request.path_params["node"], request.path_params["action"]
        await acting(_act, target, action, [node])
        return JSONResponse({"node": node, "action": action})

    async def list_page(self, request: Request) -> Response:
        """Where jobs can be sent."""
        return page("targets.html.j2", title="Targets", targets=await reading(_all))

    async def page(self, request: Request) -> Response:
        """One target, and its nodes as they are now."""
        name = request.path_params["target"]
        target = await reading(find_target, name)
        facts = await acting(self._facts, target)
        draw = fragment if request.query_params.get("fragment") else page
        return draw("target.html.j2", title=name, name=name, **facts)

    async def act(self, request: Request) -> Response:
        """What a button does to the nodes that are ticked."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        target = await reading(find_target, request.path_params["target"])
        nodes = list(dict.fromkeys(form.get("node", [])))
        if not nodes:
            raise UserError.of("bad-value", "no node was selected", "go back, and tick some")
        await acting(_act, target, form.get("action", [""])[0], nodes)
        return RedirectResponse(request.url.path, 303)

    def _facts(self, target: Target) -> dict[str, Any]:
        known = next(each for each in _all() if each["name"] == target.name)
        facts: dict[str, Any] = {"target": known, "nodes": [], "findings": ()}
        try:
            facts["nodes"] = _nodes(target)
        except UserError as error:
            facts["findings"] = error.findings
        facts["columns"] = _more(facts["nodes"])
        runs = {node["run"] for node in facts["nodes"] if node["run"]}
        facts["known"] = {name for name in runs if self._has(name)}
        facts["takes_jobs"] = bool(may("submit") and usable([target.name]))
        able = node_actions(target) if may("nodes") else ()
        facts["actions"] = [each for each in _ACTIONS if each in able]
        return facts

    def _has(self, run: str) -> bool:
        try:
            return bool(self._runs.find(run))
        except UserError:
            return False


_USUAL = ("name", "state", "address", "run", "reason")


def _more(nodes: Sequence[dict[str, Any]]) -> list[str]:
    """The columns that an engine has beside the usual ones."""
    return list(dict.fromkeys(name for node in nodes for name in node if name not in _USUAL))


def _all() -> list[dict[str, Any]]:
    return target_facts(list(all_targets().values()), ask=False)


def _nodes(target: Target) -> list[dict[str, Any]]:
    """Its nodes as they are now; UserError where they are not told."""
    with _installed():
        return list(nodes_of(target, _PATIENCE))


@contextmanager
def _installed() -> Iterator[None]:
    """UserError where a package is missing with which a target is asked."""
    try:
        yield
    except ImportError as error:
        hint = "install it where the server runs; fairway doctor says what is missing"
        raise UserError.of("missing-extra", str(error), hint, exit_code=_FAILED) from None


def _act(target: Target, action: str, nodes: Sequence[str]) -> None:
    """To all of them, also where it cannot be done to one; UserError that says to which."""
    if action not in _ACTIONS:
        raise UserError.of(
            "bad-value", f"`{action}` is not an action for nodes", "drain or resume it"
        )
    errors: list[UserError] = []
    for node in nodes:
        try:
            with audited(action, {"target": target.name, "node": node}), _installed():
                act_on_node(target, action, node)
        except UserError as error:
            errors.append(error)
    if errors:
        findings = [finding for error in errors for finding in error.findings]
        raise UserError(findings, exit_code=errors[0].exit_code)
