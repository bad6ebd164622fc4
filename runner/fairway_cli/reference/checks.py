"""The page that lists all checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks import Subject, all_checks
from fairway_core.checks.examples import explain
from fairway_core.checks.live import LIVE

if TYPE_CHECKING:
    from fairway_core.checks import Check

_HEAD = """# Checks

<!-- Made by bin/docs from constructs/fairway_core/checks: change it there. -->

Before anything is deployed, Fairway looks for what is known to go wrong.

- `fairway check` runs the checks on an environment file, and so does `fairway synth`
  before it writes anything. What makes a file meaningless is an error when it is read and
  needs no check.
- `fairway synth` runs the checks on Terraform over the stacks that it has written.
- `fairway review` runs the checks on a plan over what `terraform show -json` prints.
- `fairway check ENVIRONMENT --live`, and `fairway doctor`, [ask Azure](#in-azure) too.

An **error** stops what was asked for; a **warning** is printed. A finding on an environment
or its Terraform that is known and meant is left out by its id, for one command with
`--ignore ID`, or for good in the environment file:

```yaml
checks: {ignore: [no-budget]}
```

Examples show only what they are about.
"""

_SECTIONS = {
    Subject.ENVIRONMENT: "On the environment file",
    Subject.TERRAFORM: "On the Terraform that is written",
    Subject.PLAN: "On a plan",
    Subject.JOB: "On a job",
}


_LIVE = """## In Azure

What only Azure knows. These take `az login`, and a subscription in `ARM_SUBSCRIPTION_ID` or that
which `az` would use; the role Reader on it is enough. They read and change nothing. They are
ignored by their ids like any other.
"""


def checks_page() -> str:
    """docs/checks.md."""
    parts = [_HEAD, _table()]
    for subject, title in _SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(check) for check in all_checks(subject)]
    parts += [_LIVE, _live_table()]
    return "\n".join(parts)


def _table() -> str:
    rows = ["| check | severity | looks at |", "|---|---|---|"]
    rows += [
        f"| [{check.id}](#{check.id}) | {check.severity} | {check.summary} |"
        for check in all_checks()
    ]
    return "\n".join(rows) + "\n"


def _live_table() -> str:
    rows = ["| check | severity | looks at | reads, below the subscription |", "|---|---|---|---|"]
    rows += [
        f"| `{id_}` | {one.severity} | {one.text} | {one.reads} |" for id_, one in LIVE.items()
    ]
    return "\n".join(rows) + "\n"


def _entry(check: Check) -> str:
    explained = explain(check)
    return (
        f"### {check.id}\n\n*{check.severity.capitalize()}.* {explained.text}\n\n"
        f"Trips it:\n\n```yaml\n{explained.wrong}\n```\n\n"
        f"Does not:\n\n```yaml\n{explained.right}\n```\n"
    )
