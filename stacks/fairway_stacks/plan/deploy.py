"""`bin/deploy`: does what was approved, and stops where it would be anything else.

Plans each stack again in its order, holds the digest of its review against that of the
approved review, and applies that very plan. A stack that could not be planned when the review
was made, because those before it were not deployed, was not approved: it is deployed the next
time. Exits with 2 where something is not as approved, with 3 where data would be lost, and
with 5 where Terraform failed; stacks that were done stay done.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_stacks.plan.options import add_common, allowed, program, run, say
from fairway_stacks.plan.planning import StackPlan, live_terraform, plan_folder, prepare_and_plan
from fairway_stacks.plan.review import DATA_LOST, Reviewer
from fairway_stacks.plan.stacks import StackFolder, synthesize, usual_folder
from fairway_stacks.plan.terraform import Terraform, require

if TYPE_CHECKING:
    from fairway_core.review.review import StackReview

_AGAIN = f"plan again, and have that approved: {program('plan')} --report DIR"


def main(arguments: list[str]) -> int:
    """Deploys what was approved; answers with the exit code."""
    options = _parser().parse_args(arguments)

    def command() -> int:
        approved = read_approved(options.approved)
        require()
        if options.outputs_file:
            options.outputs_file.open("a").close()  # what cannot be written is told before
        stacks = synthesize(options.environment, usual_folder())
        outputs: dict[str, Any] = {}
        with plan_folder(None) as folder:
            for stack in stacks:
                terraform = live_terraform(stack)
                _deploy(stack, terraform, approved, Reviewer(allow=allowed(options.allow)), folder)
                outputs[stack.name] = terraform.outputs() if options.outputs_file else {}
        if options.outputs_file:
            options.outputs_file.write_text(json.dumps(outputs, indent=2), encoding="utf-8")
        return 0

    return run(command)


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
        reviewer.show([plan])
        message = f"{stack.name}: the plan is not the one that was approved; nothing of it was done"
        raise UserError.of("not-as-approved", message, _AGAIN)
    if found.lost:
        reviewer.show([plan])
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("deploy"), description=(__doc__ or "").partition("\n")[0]
    )
    add_common(parser)
    parser.add_argument(
        "--approved",
        metavar="REVIEW.json",
        type=Path,
        required=True,
        help="the review that was approved, which `bin/plan --report` has written",
    )
    parser.add_argument(
        "--outputs-file",
        metavar="FILE",
        type=Path,
        help="write the stacks' outputs here, for `fairway targets sync`",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
