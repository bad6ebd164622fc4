"""Checks that run before anything is deployed: one rule a function.

`check_environment` asks what was asked for, `check_stack` the Terraform that was made of
it, `check_plan` what Terraform would do with it, and `check_job` what a job asks of its
target. Each answers with findings; none of them needs a network or credentials. A check on
an environment or its Terraform can be ignored by its id, on the command line or under
`checks:` in the environment file.

>>> [finding.id for finding in check_environment(environment)]  # doctest: +SKIP
['no-budget']
"""

from fairway_core.checks.check import Asked as Asked
from fairway_core.checks.check import Check as Check
from fairway_core.checks.check import Fault as Fault
from fairway_core.checks.check import Subject as Subject
from fairway_core.checks.running import all_checks as all_checks
from fairway_core.checks.running import check_environment as check_environment
from fairway_core.checks.running import check_job as check_job
from fairway_core.checks.running import check_plan as check_plan
from fairway_core.checks.running import check_stack as check_stack
from fairway_core.checks.running import require_known as require_known
