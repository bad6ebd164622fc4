"""The review of plans: the end of every plan, and what a deployment is held against."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.collector import collector_paused
from fairway_core.cost.cache import prices_at_hand
from fairway_core.review.facts import review_facts
from fairway_core.review.markdown import markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import review

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_core.review.plan import Plan
    from fairway_core.review.review import Review
    from fairway_stacks.plan.planning import StackPlan

# GitHub takes a summary of 1 MiB.
_LONGEST = 1_000_000
_CUT = "\n\n… (cut: review.json has all of it)\n"


@dataclass(frozen=True)
class Reviewer:
    """Reviews plans against those of a base; `allow` holds addresses whose loss is meant.

    `left` names environments that are deployed and that no file asks for any more. `prices` is a
    file of your own prices.
    """

    base: Sequence[Plan] = ()
    allow: Sequence[str] = ()
    left: Sequence[str] = ()
    prices: Path | None = None

    def review(self, plans: Sequence[StackPlan]) -> Review:
        """Reviews the changes of these plans. Raises UserError if one of them is no plan."""
        with collector_paused():
            return review(
                [read_plan(plan.argument) for plan in plans],
                base=self.base,
                allow=self.allow,
                prices=prices_at_hand(self.prices),
                left=self.left,
            )


def as_json(found: Review) -> str:
    """The review for programs, as `fairway review --json` prints it."""
    return json.dumps(review_facts(found), indent=1) + "\n"


def write_report(found: Review, folder: Path) -> None:
    """Writes review.md and review.json, in which no secret stands, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "review.md").write_text(markdown(found), encoding="utf-8")
    (folder / "review.json").write_text(as_json(found), encoding="utf-8")


def add_summary(found: Review, file: Path) -> None:
    """Adds the review in Markdown to a file, such as that of a job's summary on GitHub."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(cut(markdown(found)))


def cut(text: str, longest: int = _LONGEST) -> str:
    """The text, or as much of it as `longest` bytes hold."""
    if len(text.encode()) <= longest:
        return text
    kept = text.encode()[: longest - len(_CUT.encode())].decode(errors="ignore")
    return kept + _CUT
