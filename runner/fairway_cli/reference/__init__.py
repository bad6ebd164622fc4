"""Parts of the documentation that are made from the code; see bin/docs."""

import re
from collections.abc import Callable
from functools import partial

from fairway_cli.reference import pages
from fairway_cli.reference.constructs import constructs
from fairway_core.environment.model import Environment
from fairway_runner.jobs.job import Job

PARTS: dict[str, Callable[[], str]] = {
    "calls": pages.calls,
    "checks": pages.checks,
    "constructs": constructs,
    "engines": pages.engines,
    "environment": partial(pages.fields_of, Environment),
    "job": partial(pages.fields_of, Job),
    "live": pages.live_checks,
    "roles": pages.roles,
}
_PART = re.compile(r"(<!-- made by bin/docs: (\w+) -->\n\n).*?(\n\n<!-- end -->\n)", re.DOTALL)


def renewed(page: str) -> str:
    """The text of a page with each part between two comments as the code has it now."""
    return _PART.sub(lambda part: part[1] + PARTS[part[2]]().strip() + part[3], page)
