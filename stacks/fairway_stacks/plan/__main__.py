"""`bin/plan`: what deploying an environment would do, in words, in money and in danger.

Synthesizes the environment, runs `terraform init`, `validate` and `plan` for each of its
stacks in their order, and ends in `fairway review`, whose exit code it has: 3 where data
would be lost. With --offline no Azure account is needed: every stack is planned from an empty
state against a stand-in for Azure on this machine. Exits with 4 where Terraform or its
provider is missing, and with 5 where Terraform failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairway_core.review.markdown import markdown
from fairway_stacks.plan.options import add_common, allowed, program, run, say, tell
from fairway_stacks.plan.planning import StackPlan, plan_folder, plan_live, plan_offline
from fairway_stacks.plan.review import (
    Reviewer,
    add_summary,
    as_json,
    exit_code,
    write_report,
)


def main(arguments: list[str]) -> int:
    """Plans and reviews; answers with the exit code."""
    options = _parser().parse_args(arguments)

    def command() -> int:
        base = [plan for each in options.base for plan in base_plans(each)]
        reviewer = Reviewer(base, allowed(options.allow))
        make = plan_offline if options.offline else plan_live
        with plan_folder(options.out) as folder:
            plans = make(options.environment, folder, say)
            found = reviewer.review(plans)
            if options.report:
                write_report(found, options.report)
            if options.summary:  # nothing where it is that of a variable which is not set
                add_summary(found, Path(options.summary))
            if options.markdown or options.json:
                sys.stdout.write(markdown(found) if options.markdown else as_json(found))
                code = exit_code(found)
            else:
                code = reviewer.show(plans)
        for error in filter(None, (plan.error for plan in plans)):
            code = code or error.exit_code
            tell(error)
        return code

    return run(command)


def base_plans(given: str) -> list[str]:
    """A plan of the base as `fairway review` takes it; those of a folder that --out has filled."""
    folder = Path(given)
    if not folder.is_dir():
        return [given]
    files = sorted(folder.glob("*.json"))
    if not files:
        say(f"{folder} holds no plans: there is nothing to compare with")
    return [StackPlan(file.stem, file.with_suffix(".tfplan"), file).argument for file in files]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("plan"), description=(__doc__ or "").partition("\n")[0]
    )
    add_common(parser)
    parser.add_argument(
        "--offline", action="store_true", help="plan from an empty state, without Azure"
    )
    parser.add_argument(
        "--base",
        metavar="PLAN.json|DIR",
        action="append",
        default=[],
        help="a plan, or a folder of --out, whose changes are set apart; repeatable",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="keep the plans here; they hold secrets"
    )
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="write review.md and review.json here"
    )
    parser.add_argument("--summary", metavar="FILE", help="add the review in Markdown to this file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the review as Markdown")
    form.add_argument("--json", action="store_true", help="print the review as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
