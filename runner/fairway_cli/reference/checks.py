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

```bash
fairway check lab
fairway check lab --live
```

Before anything is deployed, Fairway checks for known problems.

- `fairway check` runs the checks on an environment file, and so does `fairway synth`
  before it writes anything. A file that cannot be read as an environment is refused before that.
- `fairway synth` runs the checks on Terraform on the stacks that it has written.
- `fairway review` runs the checks on a plan, as printed by `terraform show -json`.
- `fairway check ENVIRONMENT --live`, and `fairway doctor`, [ask Azure](#in-azure) too.

An **error** stops the command; a **warning** is only printed. To accept a finding on an environment
or its Terraform, ignore the check by its id: for one command with `--ignore ID`, or permanently in
the environment file:

```yaml
checks: {ignore: [no-budget]}
```

The examples below show only the lines that matter.
"""

_SECTIONS = {
    Subject.ENVIRONMENT: "On the environment file",
    Subject.TERRAFORM: "On the generated Terraform",
    Subject.PLAN: "On a plan",
    Subject.JOB: "On a job",
}


_LIVE = """## In Azure

These checks ask Azure. They need `az login`, and the subscription in `ARM_SUBSCRIPTION_ID` or
the default one of `az`; the role Reader on it is enough. They only read. They can be ignored by
their
ids like the others.
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
    rows = ["| check | severity | looks at | reads, under the subscription |", "|---|---|---|---|"]
    rows += [
        f"| `{id_}` | {one.severity} | {one.text} | {one.reads} |" for id_, one in LIVE.items()
    ]
    return "\n".join(rows) + "\n"


def _entry(check: Check) -> str:
    explained = explain(check)
    return (
        f"### {check.id}\n\n*{check.severity.capitalize()}.* {explained.text}\n\n"
        f"Fails:\n\n```yaml\n{explained.wrong}\n```\n\n"
        f"Passes:\n\n```yaml\n{explained.right}\n```\n"
    )
