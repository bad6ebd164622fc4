"""The style of a run's report, which its page here has too."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request


async def report_style(request: Request) -> Response:
    """The style sheet of reports."""
    file = resources.files("fairway_runner.runs.report") / "page.css"
    return Response(file.read_text("utf-8"), media_type="text/css")
