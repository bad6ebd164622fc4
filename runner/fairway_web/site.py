"""The project that is served, as the handlers of requests know it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_web.code_upload import Uploads
from fairway_web.submissions import Submissions
from fairway_web.threads import Refresher

if TYPE_CHECKING:
    from starlette.requests import Request

    from fairway_web.environments import Programs
    from fairway_web.runs import Runs
    from fairway_web.threads import Follower


@dataclass
class Site:
    """One project, Fairway's other commands for it, and what follows its runs."""

    runs: Runs
    programs: Programs
    follower: Follower | None
    refresher: Refresher = field(init=False)
    submissions: Submissions = field(init=False)

    def __post_init__(self) -> None:
        self.refresher = Refresher(self.runs)
        self.submissions = Submissions(self.runs, Uploads(self.runs))


def site_of(request: Request) -> Site:
    """The project that a request is about."""
    site: Site = request.app.state.site
    return site
