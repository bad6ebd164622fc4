"""`fairway deploy`: does what was approved, and stops where it would be anything else.

Plans each stack again in its order, holds the digest of its review against that of the
approved review, and applies that very plan. A stack that could not be planned when the review
was made, because those before it were not deployed, was not approved: it is deployed the next
time. Exits with 2 where something is not as approved, with 3 where data would be lost, and
with 5 where Terraform failed; stacks that were done stay done.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_stacks.app import usual_outdir
from fairway_stacks.plan.options import say
from fairway_stacks.plan.planning import StackPlan, live_terraform, plan_folder, prepare_and_plan
from fairway_stacks.plan.review import DATA_LOST, Reviewer
from fairway_stacks.plan.stacks import StackFolder, synthesize
from fairway_stacks.plan.terraform import Terraform, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fairway_core.review.review import Review, StackReview

_AGAIN = "plan again, and have that approved: fairway plan --report DIR"


def deploy(
    environment: str | None,
    approved: Path,
    *,
    allow: Sequence[str],
    show: Callable[[Review], None],
    outputs_file: Path | None = None,
) -> None:
    """Deploys the stacks that the review in `approved` holds, each as it was approved.

    `allow` holds the addresses whose loss is accepted; `show` prints a review that stops
    the deployment. Writes the stacks' outputs to
    `outputs_file`. Raises UserError where something is not as approved.
    """
    known = read_approved(approved)
    require()
    if outputs_file:
        outputs_file.open("a").close()  # what cannot be written is told before
    outputs: dict[str, Any] = {}
    with plan_folder(None) as folder:
        for stack in synthesize(environment, usual_outdir()):
            terraform = live_terraform(stack)
            _deploy(stack, terraform, known, Reviewer(allow=allow), folder, show)
            outputs[stack.name] = terraform.outputs() if outputs_file else {}
    if outputs_file:
        outputs_file.write_text(json.dumps(outputs, indent=2), encoding="utf-8")


def read_approved(file: Path) -> dict[str, dict[str, Any]]:
    """The stacks of an approved review by name, each with its `state` and its `digest`."""
    try:
        review = json.loads(file.read_text(encoding="utf-8"))
        return {
            each["stack"]: {"state": each["state"], "digest": each["digest"]}
            for each in review["stacks"]
        }
    except OSError as error:
        raise UserError.of("no-review", f"{file}: {error.strerror}", _AGAIN) from None
    except (ValueError, KeyError, TypeError):
        raise UserError.of("no-review", f"{file} is no review in JSON", _AGAIN) from None


def _deploy(
    stack: StackFolder,
    terraform: Terraform,
    approved: dict[str, dict[str, Any]],
    reviewer: Reviewer,
    folder: Path,
    show: Callable[[Review], None],
) -> None:
    """Plans a stack, and applies the plan where it is the approved one."""
    known = approved.get(stack.name, {"state": "", "digest": ""})
    if known["state"] != "planned":
        why = {
            "waiting": "it waited for a stack that was not deployed when the review was made",
            "failed": "its plan had failed when the review was made",
        }.get(known["state"], "it is not in the review")
        raise UserError.of("not-approved", f"{stack.name} was not approved: {why}", _AGAIN)
    say(f"{stack.name}: plan again")
    plan = prepare_and_plan(terraform, folder, lock=True)
    found = reviewer.review([plan])
    if found.stacks[0].digest != known["digest"]:
        show(found)
        message = f"{stack.name}: the plan is not the one that was approved; nothing of it was done"
        raise UserError.of("not-as-approved", message, _AGAIN)
    if found.lost:
        show(found)
        message = f"{stack.name}: data would be lost; nothing of it was done"
        hint = "name each address that is meant: --allow ADDRESS, or FAIRWAY_ALLOW"
        raise UserError.of("data-loss", message, hint, exit_code=DATA_LOST)
    _apply(terraform, plan, found.stacks[0])


def _apply(terraform: Terraform, plan: StackPlan, found: StackReview) -> None:
    if not found.changes and not found.outputs and not found.drift:
        say(f"{found.stack}: as it should be")
        return
    say(f"{found.stack}: apply")
    terraform.apply(plan.file)
