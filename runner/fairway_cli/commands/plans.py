"""Commands that plan, review and apply changes of an environment."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Exit, Option

from fairway_cli.commands import arguments
from fairway_cli.commands.synthesis import STACKS
from fairway_core.findings import Finding, Severity, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_OnlyState = Annotated[
    str | None,
    Option(metavar="state", help="Only the account that holds the state of the stacks."),
]


def _is_state(stack: str | None) -> bool:
    """Returns True for `--stack state`. Raises UserError for another stack: they go together."""
    _refuse_variable()
    if stack not in (None, "state"):
        message = f"`--stack {stack}`: only `state` is planned and deployed without the others"
        raise UserError.of("unknown-stack", message, "leave it out; each stack is shown by itself")
    return stack is not None


def _refuse_variable() -> None:
    """Raises UserError if FAIRWAY_STACKS is set, as for `cdktf`, which has no such option."""
    if os.environ.get(STACKS):
        message = f"{STACKS} is set, which only `fairway synth` follows"
        hint = f"unset {STACKS}\nfor the account of the state: --stack state"
        raise UserError.of("unknown-stacks", message, hint)


def plan(
    environment: arguments.EnvironmentArgument = None,
    offline: Annotated[
        bool, Option("--offline", help="Plan from an empty state, without Azure.")
    ] = False,
    base: Annotated[
        list[str] | None,
        Option(
            metavar="PLAN.json|DIR",
            help="A plan of the base branch, or a folder of --out; its changes are listed "
            "separately. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Keep the plans here; they hold secrets.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write review.md and review.json here.")
    ] = None,
    summary: Annotated[
        str, Option(metavar="FILE", help="Append the review in Markdown to this file.")
    ] = "",
    markdown: Annotated[bool, Option("--markdown", help="Print the review as Markdown.")] = False,
    json_: arguments.JsonOption = False,
    allow: arguments.AllowOption = None,
    prices: arguments.PricesOption = None,
    stack: _OnlyState = None,
) -> None:
    """Plan every stack of an environment, and review what would change.

    Synthesizes the environment, runs `terraform init`, `validate` and `plan` for each stack in
    its order, and prints what `fairway review` does. With --offline no Azure account is
    needed: every stack is planned from an empty state against a stand-in for Azure on this
    machine. Exits with 3 where data would be lost, with 2 where Azure would refuse a change,
    with 4 where Terraform or its provider is missing, and with 5 where Terraform failed.
    --deadline holds for what Fairway asks Azure beside Terraform.
    """
    from fairway_cli.ui.reviews import allowed, form_of, show_review
    from fairway_stacks.app import usual_outdir
    from fairway_stacks.plan.planning import base_plans, plan_folder, plan_live, plan_offline
    from fairway_stacks.plan.review import Reviewer, add_summary, require_writable, write_report
    from fairway_stacks.plan.stacks import (
        files_can_be_written,
        left_behind,
        ordered_stacks,
        print_error,
    )

    form, state = form_of(markdown=markdown, json_=json_), _is_state(stack)
    before = [plan for each in base or () for plan in base_plans(each)]
    with end_in_order(), files_can_be_written(), plan_folder(out) as folder:
        require_writable(report)
        plans = (
            plan_offline(environment, folder, state=state)
            if offline
            else plan_live(environment, folder, allowed(allow), state=state)
        )
        left = [] if offline or state else left_behind(ordered_stacks(usual_outdir()))
        found = Reviewer(before, allowed(allow), left, prices).review(plans)
        if report:
            write_report(found, report)
        if summary:  # empty if it comes from an unset variable
            add_summary(found, Path(summary))
        show_review(found, form)
        for finding in [] if offline else _of_stopped_machines([plan.review for plan in plans]):
            print_error(UserError([finding]))
    code = found.exit_code
    for error in filter(None, (plan.error for plan in plans)):
        code = code or error.exit_code
        print_error(error)
    raise Exit(code)


def _of_stopped_machines(reviews: Sequence[Path]) -> Iterator[Finding]:
    """Yields a warning about each VM that has to run for these plans to be applied to it."""
    from fairway_runner.live.rules import stopped_machines

    for file in reviews:
        with suppress(ValueError):  # the log of a plan that failed
            for machine in stopped_machines(json.loads(file.read_text(encoding="utf-8"))):
                yield replace(machine.finding, severity=Severity.WARNING)


def review(
    plans: Annotated[
        list[str] | None,
        Argument(
            metavar="[ENVIRONMENT|[STACK=]PLAN.json…]",
            help="Output of `terraform show -json`, one per stack; or a folder of them. Or an "
            "environment, by default FAIRWAY_ENVIRONMENT, then the project's own.",
            autocompletion=arguments.complete_environments,
        ),
    ] = None,
    base: Annotated[
        list[str] | None,
        Option(
            metavar="[STACK=]PLAN.json",
            help="A plan of the base branch; its changes are listed separately. Repeatable.",
        ),
    ] = None,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    json_: arguments.JsonOption = False,
    allow: arguments.AllowOption = None,
    prices: arguments.PricesOption = None,
) -> None:
    """Show what Terraform plans would change, cost and destroy.

    Exits with 3 if data would be lost and --allow does not name its address, and with 2 if Azure
    would refuse a change. No service is asked: prices come from the cache or the snapshot. An
    environment in place of plans is planned first, as `fairway plan ENVIRONMENT` does.
    """
    from fairway_cli.ui.reviews import allowed, environment_in, form_of, show_review
    from fairway_core.collector import gc_paused
    from fairway_core.cost.cache import cached_prices
    from fairway_core.review.plan import read_plans
    from fairway_core.review.review import review as review_of

    given = plans or []
    environment = environment_in(given)
    if environment is not None:
        name = environment or None
        plan(name, base=base, markdown=markdown, json_=json_, allow=allow, prices=prices)
    form = form_of(markdown=markdown, json_=json_)
    with gc_paused():
        planned = [plan for argument in given for plan in read_plans(argument)]
        if not planned:
            message = f"{', '.join(given)}: holds no *.json"
            raise UserError.of("no-plans", message, "fairway plan --out DIR fills such a folder")
        before = [plan for argument in base or () for plan in read_plans(argument)]
        at_hand = cached_prices(prices)
        found = review_of(planned, base=before, allow=allowed(allow), prices=at_hand)
        show_review(found, form)
    raise Exit(found.exit_code)


def deploy(
    environment: arguments.EnvironmentArgument = None,
    approved: Annotated[
        Path | None,
        Option(
            metavar="REVIEW.json", help="The approved review, written by fairway plan --report."
        ),
    ] = None,
    outputs_file: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the stacks' outputs here, for fairway targets sync."),
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write the next review to approve to this folder.")
    ] = None,
    allow: arguments.AllowOption = None,
    stack: _OnlyState = None,
) -> None:
    """Apply an approved plan, and nothing else.

    Plans each stack again, compares the digest of its review with that of the approved review,
    and applies that very plan. Without --approved it shows the review and asks on the terminal.
    Stacks that only destroy something come after those that read them.

    A stack that needed outputs of another one when the review was made is planned once they
    exist. On a terminal the rest is then shown and confirmed; with --approved the deployment
    stops there, and writes the review to approve next to --report. Exits with 2 if something
    differs from the approved review, with 3 if data would be lost, and with 5 if Terraform
    failed; stacks that were applied stay applied.

    Where it would change an extension of a VM that is stopped, which Azure refuses, it offers to
    start the VM, or stops before anything of that stack was done. --deadline holds for what Fairway
    asks Azure beside Terraform.
    """
    from fairway_cli.ui.reviews import allowed, print_review
    from fairway_stacks.plan.deploy import Person, deploy
    from fairway_stacks.plan.stacks import files_can_be_written

    state = _is_state(stack)
    ask = typer.confirm if approved is None and sys.stdin.isatty() else None
    with end_in_order(), files_can_be_written():
        deploy(
            environment,
            approved,
            Person(print_review, ask, partial(_have_machines_run, ask=ask)),
            allow=allowed(allow),
            outputs_file=outputs_file,
            report=report,
            state=state,
        )


@contextmanager
def end_in_order() -> Iterator[None]:
    """Ends at SIGTERM, or if the terminal is closed, as at Ctrl-C: Terraform finishes, and plans,
    which hold secrets, are gone."""
    ends = {signal.SIGTERM: lambda *_: sys.exit(143), signal.SIGHUP: lambda *_: sys.exit(129)}
    before = {number: signal.signal(number, end) for number, end in ends.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _have_machines_run(plan: Mapping[str, Any], ask: Callable[[str], bool] | None) -> None:
    """Starts stopped VMs that the plan would change. Raises UserError if nobody agrees."""
    from fairway_runner.live import operations
    from fairway_runner.live.rules import stopped_machines

    stopped = stopped_machines(plan)
    for machine in stopped:
        question = f"{machine.finding.message}. Start it now?"
        if ask is None or not ask(question):
            raise UserError([each.finding for each in stopped])
    for machine in stopped:
        operations.act(machine.name, machine.id, "start")


def destroy(
    environment: arguments.EnvironmentArgument = None,
    stack: Annotated[
        list[str] | None,
        Option(
            metavar="STACK",
            help="Only compute, or data, or network, with those that read it. Repeatable. Or "
            "state: the account of their state.",
        ),
    ] = None,
    approved: Annotated[
        Path | None, Option(metavar="REVIEW.json", help="The approved review, written by --report.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Write the review of what would go to this folder.")
    ] = None,
    allow: arguments.AllowOption = None,
) -> None:
    """Destroy an environment, or some of its stacks, once that was approved.

    Plans the destruction of each stack, shows the review and asks. The stacks go in the opposite
    order of their making, and those that read a stack go with it: `--stack compute` takes the
    clusters alone and keeps the data. What holds data goes only where --allow names its address,
    as in a deployment; the review has the options to copy.

    Without a terminal, --report DIR writes the review and stops, and --approved DIR/review.json
    does what it says and nothing else. Exits with 3 if data would be lost, and with 2 where
    something differs from the approved review or is protected: set `protect: false` in the file
    and deploy that first.
    """
    from fairway_cli.ui.reviews import allowed, print_review
    from fairway_stacks.plan.deploy import Person
    from fairway_stacks.plan.destroy import destroy
    from fairway_stacks.plan.stacks import files_can_be_written

    _refuse_variable()
    ask = typer.confirm if approved is None and sys.stdin.isatty() else None
    with end_in_order(), files_can_be_written():
        destroy(
            environment,
            stack or (),
            approved,
            Person(print_review, ask),
            allow=allowed(allow),
            report=report,
        )


def comment(
    folder: Annotated[
        Path,
        Argument(
            metavar="DIR",
            help="Folder that holds review-ENVIRONMENT/review.json for each environment.",
        ),
    ],
    run: Annotated[str, Option(metavar="URL", help="The workflow run that made the reviews.")],
    commit: Annotated[str, Option(metavar="SHA", help="The commit that was planned.")],
    head: Annotated[
        str, Option(metavar="OWNER/REPO", help="The repository that the commit is from.")
    ],
    base: Annotated[str, Option(metavar="OWNER/REPO", help="The repository of the pull request.")],
) -> None:
    """Print the comment of a pull request, from reviews that its own code made.

    Reads data and runs nothing: everything in a review is shown as text. The dangers of
    all environments come first, and none can hide those of another.
    """
    from fairway_core.review.markdown import Origin, comment
    from fairway_core.review.serialization import read_review

    reviews = {}
    for each in sorted(folder.glob("review-*")):
        try:
            found = read_review(each / "review.json")
        except UserError:
            found = None
        reviews[each.name.removeprefix("review-")] = found
    if not reviews:
        raise UserError.of("no-review", f"{folder} holds no review", "fairway plan --report DIR")
    print(comment(reviews, Origin(run, commit, fork=head != base)), end="")
