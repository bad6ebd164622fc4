"""Pages of the documentation that are made from the code; see bin/docs."""

from fairway_cli.reference.checks import checks_page
from fairway_cli.reference.engines import engines_page
from fairway_cli.reference.fields import environment_page, job_page

PAGES = {
    "checks.md": checks_page,
    "engines.md": engines_page,
    "environment.md": environment_page,
    "job.md": job_page,
}
"""What makes each page, by its file's name."""
