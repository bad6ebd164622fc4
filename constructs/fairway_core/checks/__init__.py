"""Checks that run before anything is deployed: one rule per function.

`check_environment` checks the environment file, `check_stack` the Terraform generated from it,
`check_plan` what Terraform would do, and `check_job` a job on its target. Each returns findings;
none of them needs a network or credentials. A check on an environment or its Terraform can be
ignored by its id, on the command line or under `checks:` in the environment file.
"""

from fairway_core.checks.check import Check as Check
from fairway_core.checks.check import CheckContext as CheckContext
from fairway_core.checks.check import Subject as Subject
from fairway_core.checks.check import Violation as Violation
from fairway_core.checks.runner import all_checks as all_checks
from fairway_core.checks.runner import check_clusters as check_clusters
from fairway_core.checks.runner import check_environment as check_environment
from fairway_core.checks.runner import check_job as check_job
from fairway_core.checks.runner import check_plan as check_plan
from fairway_core.checks.runner import check_stack as check_stack
from fairway_core.checks.runner import require_known as require_known
