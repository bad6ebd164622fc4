"""Command `fairway review`, and its fast path for plain arguments.

A review of thousands of resources takes hardly longer than importing Typer: if each word is an
option of its own or a file, Typer is not imported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence


class Asked(TypedDict):
    """Arguments of a review, as `fairway review` takes them."""

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
    return found.exit_code


def environment_in(words: Sequence[str]) -> str | None:
    """The environment that is named in place of its plans, by its name or its file, "" for the
    project's own; None where they are plans. UserError where one is named beside them."""
    if not words:
        return ""
    named = [word for word in words if not _holds_plans(word)]
    if not named:
        return None
    from fairway_core.environment.selection import known_environments
    from fairway_core.findings import UserError

    environments = [word for word in named if _is_yaml(word) or word in known_environments()]
    if environments and len(words) > 1:
        message = f"`{environments[0]}` is an environment, and not a plan"
        hint = f"review it alone: fairway review {environments[0]}"
        raise UserError.of("bad-plan", message, hint)
    return environments[0] if environments else None


def _holds_plans(word: str) -> bool:
    """True if a plan file of that name exists, or a folder of plans."""
    is_there = Path(word).exists() or Path(word.partition("=")[2] or word).exists()
    return is_there and not _is_yaml(word)


def _is_yaml(word: str) -> bool:
    return word.endswith((".yaml", ".yml"))


def allowed(given: Sequence[str] | None) -> list[str]:
    """The addresses whose loss is accepted: those given, and those of FAIRWAY_ALLOW."""
    return [*(given or ()), *os.environ.get("FAIRWAY_ALLOW", "").split()]


def asked_plainly(words: Sequence[str]) -> Asked | None:
    """Parses these arguments of `fairway review`. Returns None if a word is left to Typer: any
    other option, a short one, one with its value in the same word, a value that looks like an
    option, and every mistake."""
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
