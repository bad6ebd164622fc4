"""Findings and reviews on a terminal, the most dangerous first."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_cli.ui.columns import BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled
from fairway_core.findings import Severity, UserError, counted, format_finding, printable
from fairway_core.review import lines
from fairway_core.review.changes import Action
from fairway_core.review.lines import DONE, Untrusted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.findings import Finding
    from fairway_core.review.changes import Change
    from fairway_core.review.lines import Line
    from fairway_core.review.review import Review, StackReview

_COLOURS = {
    Action.DESTROY: RED,
    Action.REPLACE: RED,
    Action.CHANGE: YELLOW,
    Action.CREATE: GREEN,
    Action.FORGET: YELLOW,
    Action.MOVE: CYAN,
    Action.IMPORT: CYAN,
}


def form_of(*, markdown: bool, json_: bool) -> str:
    """Returns the output format of the options. Raises UserError if they ask for two."""
    if markdown and json_:
        raise UserError.of("two-forms", "--markdown and --json cannot be combined", "choose one")
    return "json" if json_ else "markdown" if markdown else "text"


def show_review(found: Review, form: str) -> None:
    match form:
        case "json":
            from fairway_core.review.serialization import review_to_json

            print(json.dumps(review_to_json(found), indent=1))
        case "markdown":
            from fairway_core.review.markdown import markdown

            print(markdown(found), end="")
        case _:
            print_review(found)


def print_review(review: Review) -> None:
    """Prints the entire review; text from plans cannot move the cursor."""
    of_stacks = (finding for stack in review.stacks for finding in stack.findings)
    for finding in (*review.findings, *of_stacks):
        print(format_finding(finding), end="\n\n")
    for loss in review.losses:
        if loss.allowed:
            print(f"allowed: {printable(loss.how)}\n")
    for stack in review.stacks:
        _print_stack(stack)
    if review.cost is not None:
        print(styled("cost", BOLD))
        for number, line in enumerate(lines.cost_lines(review.cost)):
            print(f"  {'  ' if number else ''}{_written(line)}")
        print()
    print(f"{lines.summary(review)}\ndigest {review.digest}")
    if review.unapproved_losses:
        typed = shlex.join(["fairway", *sys.argv[1:]])
        print("\ndata would be lost; to accept all of it:")
        print(f"  {printable(f'{typed} {lines.allow_options(review.unapproved_losses)}')}")


def _print_stack(stack: StackReview) -> None:
    print(styled(printable(stack.stack), BOLD))
    if stack.state == "waiting":
        print(f"  {_written(lines.waiting_line(stack))}")
    for action, word in DONE.items():
        chosen = [each for each in stack.changes if each.action is action]
        _print_changes(chosen, word, _COLOURS[action])
    for output in stack.outputs:
        print(f"  output {_written(lines.output_line(output))}")
    _print_changes(stack.in_base, "what the base branch would already do", DIM)
    _print_changes(stack.only_in_base, "what only the base branch would do", DIM)
    _print_changes(stack.drift, "changed outside of Terraform (drift)", CYAN)
    if stack.format_only:
        print(f"  {_written(lines.reread_line(stack))}")
    if not (stack.planned or stack.drift or stack.outputs or stack.waits_for):
        print("  nothing would change")
    print()


def _print_changes(changes: Sequence[Change], title: str, colour: str) -> None:
    if not changes:
        return
    print(f"  {styled(title, colour)}")
    for change in changes:
        print(f"    {_written(lines.change_line(change))}")
        for line in lines.attribute_lines(change):
            print(f"      {_written(line)}")


def _written(line: Line) -> str:
    return "".join(printable(one.text) if isinstance(one, Untrusted) else one for one in line)


def print_findings(findings: Sequence[Finding], subject: str) -> None:
    for finding in findings:
        print(format_finding(finding), end="\n\n")
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    kinds = {"error": errors, "warning": warnings}
    counts = [counted(number, kind) for kind, number in kinds.items() if number]
    print(f"{subject}: {', '.join(counts) or 'nothing found'}")


def environment_in(words: Sequence[str]) -> str | None:
    """Returns the environment that is named in place of its plans, by its name or its file, "" for
    the project's own; None if the arguments are plans. Raises UserError for a mixture."""
    if not words:
        return ""
    named = [word for word in words if not _holds_plans(word)]
    if not named:
        return None
    from fairway_core.environment.selection import known_environments

    environments = [word for word in named if _is_yaml(word) or word in known_environments()]
    if environments and len(words) > 1:
        message = f"`{environments[0]}` is an environment, and not a plan"
        hint = f"review it alone: fairway review {environments[0]}"
        raise UserError.of("bad-plan", message, hint)
    return environments[0] if environments else None


def _holds_plans(word: str) -> bool:
    is_there = Path(word).exists() or Path(word.partition("=")[2] or word).exists()
    return is_there and not _is_yaml(word)


def _is_yaml(word: str) -> bool:
    return word.endswith((".yaml", ".yml"))


def allowed(given: Sequence[str] | None) -> list[str]:
    """Returns the addresses whose loss is accepted: the given ones, and those of FAIRWAY_ALLOW."""
    return [*(given or ()), *os.environ.get("FAIRWAY_ALLOW", "").split()]
