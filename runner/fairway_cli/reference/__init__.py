"""Pages of the documentation that are made from the code; see bin/docs."""

from fairway_cli.reference.constructs import constructs_page
from fairway_cli.reference.pages import checks_page, engines_page, environment_page, job_page

PAGES = {
    "checks.md": checks_page,
    "constructs.md": constructs_page,
    "engines.md": engines_page,
    "environment.md": environment_page,
    "job.md": job_page,
}
"""What makes each page, by its file's name."""
