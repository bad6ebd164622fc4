"""What `fairway review` does, and how it is asked for in the plain way.

A review of thousands of resources takes hardly longer than Typer does to be imported: where each
word is an option of its own or a file, Typer is left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

_REFUSED, _DATA_LOST = 2, 3


class Asked(TypedDict):
    """What a review is made of, as `fairway review` takes it."""

    plans: list[str]
    base: list[str]
    markdown: bool
    json_: bool
    allow: list[str]
    prices: Path | None


def review_files(asked: Asked) -> int:
    """Reviews the plans and prints that; answers with the exit code."""
    from fairway_cli.ui.reviews import form_of, show_review
    from fairway_core.collector import collector_paused
    from fairway_core.cost.cache import prices_at_hand
    from fairway_core.findings import UserError
    from fairway_core.review.plan import read_plans
    from fairway_core.review.review import review

    form = form_of(markdown=asked["markdown"], json_=asked["json_"])
    with collector_paused():
        _require_no_environment(asked["plans"])
        plans = [plan for argument in asked["plans"] for plan in read_plans(argument)]
        if not plans:
            message = f"{', '.join(asked['plans'])}: holds no *.json"
            raise UserError.of("no-plans", message, "fairway plan --out DIR fills such a folder")
        found = review(
            plans,
            base=[plan for argument in asked["base"] for plan in read_plans(argument)],
            allow=allowed(asked["allow"]),
            prices=prices_at_hand(asked["prices"]),
        )
        show_review(found, form)
    return _DATA_LOST if found.lost else _REFUSED if found.refused else 0


def _require_no_environment(words: Sequence[str]) -> None:
    """UserError where an environment is named in place of its plans, or nothing at all."""
    from fairway_core.findings import UserError

    if not words:
        message = "say which plans: files of `terraform show -json`, or a folder of them"
        hint = "to plan an environment and review that: fairway plan ENVIRONMENT"
        raise UserError.of("no-plans", message, hint)
    missing = [word for word in words if "/" not in word and word and not Path(word).exists()]
    if not missing:
        return
    from fairway_core.environment.selection import known_environments

    for name in missing:
        if name in known_environments():
            message = f"`{name}` is an environment, and no plan"
            raise UserError.of("no-plans", message, f"fairway plan {name} plans and reviews it")


def allowed(given: Sequence[str] | None) -> list[str]:
    """The addresses whose loss is accepted: those given, and those of FAIRWAY_ALLOW."""
    return [*(given or ()), *os.environ.get("FAIRWAY_ALLOW", "").split()]


def asked_plainly(words: Sequence[str]) -> Asked | None:
    """What these arguments of `fairway review` ask for.

    None where a word is left to Typer: any other option, a short one, one with its value in
    the same word, a value that looks like an option, and every mistake.
    """
    asked = Asked(plans=[], base=[], markdown=False, json_=False, allow=[], prices=None)
    rest = iter(words)
    for word in rest:
        if word == "--markdown":
            asked["markdown"] = True
        elif word == "--json":
            asked["json_"] = True
        elif word in ("--base", "--allow", "--prices"):
            value = next(rest, "")
            if not value or value.startswith("-"):
                return None
            if word == "--prices":
                asked["prices"] = Path(value)
            else:
                asked["base" if word == "--base" else "allow"].append(value)
        elif not word or word.startswith("-"):
            return None
        else:
            asked["plans"].append(word)
    return asked if asked["plans"] else None
