"""The templates of the pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse

from fairway_core.findings import excerpt
from fairway_runner.runs.report.page import html_templates
from fairway_web.roles import may, request_context

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _templates() -> Environment:
    environment = html_templates("fairway_web", "templates")
    environment.filters["excerpt"] = lambda location: "\n".join(excerpt(location))
    return environment


def page(name: str, status: int = 200, /, **facts: Any) -> HTMLResponse:
    """A whole page."""
    return HTMLResponse(_templates().get_template(name).render(**facts, **_asks()), status)


def fragment(name: str, /, **facts: Any) -> HTMLResponse:
    """The part of a page that changes: its block `fragment`."""
    template = _templates().get_template(name)
    block = template.blocks["fragment"]
    return HTMLResponse("".join(block(template.new_context({**facts, **_asks()}))))


def _asks() -> dict[str, Any]:
    """Who looks at the page: what they may not do has no button."""
    return {"person": request_context().person, "may": may}
