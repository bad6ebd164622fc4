"""The environments of the project: what is wrong with one, what it costs, a picture of it.

What is made of Terraform's stacks is made by a program of its own: nothing of that is loaded here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairway_core.checks import check_environment
from fairway_core.environment import read_environment
from fairway_core.environment.selection import known_environments
from fairway_core.findings import UserError, finding_facts
from fairway_core.suggestions import did_you_mean
from fairway_web.acting import checking, reading
from fairway_web.html import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from fairway_core.findings import Finding

_PATIENCE = 120.0  # seconds for a program; only one that hangs takes so long
_SERVICE_FAILED = 5


@dataclass
class Environments:
    """The handlers, pages and REST. `program` is what starts Fairway's commands; of each file the
    picture is kept that was made of it last."""

    program: Sequence[str]
    _pictures: dict[Path, tuple[int, bytes]] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        """What is shown."""
        return [
            Route("/environments", self.list_page),
            Route("/environments/{name}", self.page),
        ]

    def rest_routes(self) -> list[Route]:
        """What is answered below `/api/v1`."""
        return [
            Route("/environments", self.list),
            Route("/environments/{name}/check", self.check),
            Route("/environments/{name}/cost", self.cost),
            Route("/environments/{name}/diagram", self.diagram),
        ]

    async def list(self, request: Request) -> Response:
        """Their names and files."""
        known = await reading(known_environments)
        return JSONResponse([{"name": name, "file": str(file)} for name, file in known.items()])

    async def check(self, request: Request) -> Response:
        """As `fairway check --json` prints it."""
        found = await checking(_checked, _file(request))
        return JSONResponse([finding_facts(each) for each in found])

    async def cost(self, request: Request) -> Response:
        """As `fairway cost --offline --json` prints it."""
        return JSONResponse(await checking(_cost, self.program, _file(request)))

    async def diagram(self, request: Request) -> Response:
        """A picture of it, as SVG."""
        picture = await checking(self._picture, _file(request))
        return Response(picture, media_type="image/svg+xml")

    async def list_page(self, request: Request) -> Response:
        """Those of the project, and those that come with Fairway."""
        known = await reading(known_environments)
        return page("environments.html.j2", title="Environments", environments=known)

    async def page(self, request: Request) -> Response:
        """One of them."""
        file = _file(request)
        found = await checking(_checked, file)
        cost, failed = None, None
        try:
            cost = await checking(_cost, self.program, file)
        except UserError as error:
            failed = str(error)
        name = request.path_params["name"]
        can_draw = shutil.which("dot") is not None
        facts = {"name": name, "file": file, "findings": found, "cost": cost, "failed": failed}
        return page("environment.html.j2", title=name, can_draw=can_draw, **facts)

    def _picture(self, file: Path) -> bytes:
        changed = file.stat().st_mtime_ns
        known = self._pictures.get(file)
        if known is None or known[0] != changed:
            with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
                made = Path(folder, "diagram.svg")
                _program(self.program, "diagram", str(file), "--output", str(made))
                self._pictures[file] = known = (changed, made.read_bytes())
        return known[1]


def _file(request: Request) -> Path:
    name, known = request.path_params["name"], known_environments()
    if name not in known:
        message = f"no environment is called `{name[:60]}`"
        raise UserError.of("unknown-environment", message, did_you_mean(name, known))
    return known[name]


def _checked(file: Path) -> Sequence[Finding]:
    try:
        loaded = read_environment(file)
        ignored = set(loaded.environment.checks.ignore)
        return check_environment(loaded.environment, loaded.document, ignore=ignored)
    except UserError as error:
        return error.findings


def _cost(program: Sequence[str], file: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(_program(program, "cost", str(file), "--offline", "--json"))
    return facts


def _program(program: Sequence[str], *words: str) -> str:
    """What a command of Fairway prints; UserError with what it complains of."""
    try:
        done = subprocess.run(
            [*program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        message = f"`fairway {words[0]}` took longer than {_PATIENCE:g} s"
        hint = f"see what it says: fairway {words[0]} {words[1]}"
        raise UserError.of("slow-command", message, hint, exit_code=_SERVICE_FAILED) from None
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        message = f"`fairway {words[0]}` failed: {said}"
        hint = f"try it in a terminal: fairway {words[0]} {words[1]}"
        raise UserError.of("failed-command", message, hint, exit_code=done.returncode)
    return done.stdout
