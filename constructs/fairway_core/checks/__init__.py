"""Checks that run before anything is deployed: one rule a function.

`check_environment` asks what was asked for, `check_stack` the Terraform that was made of
it, `check_plan` what Terraform would do with it, and `check_job` what a job asks of its
target. Each answers with findings; none of them needs a network or credentials. A check on
an environment or its Terraform can be ignored by its id, on the command line or under
`checks:` in the environment file.

>>> [finding.id for finding in check_environment(environment)]  # doctest: +SKIP
['no-budget']
"""

from fairway_core.checks.check import Asked, Check, Fault, Subject
from fairway_core.checks.running import (
    all_checks,
    check_environment,
    check_job,
    check_plan,
    check_stack,
    require_known,
)

__all__ = [
    "Asked",
    "Check",
    "Fault",
    "Subject",
    "all_checks",
    "check_environment",
    "check_job",
    "check_plan",
    "check_stack",
    "require_known",
]
