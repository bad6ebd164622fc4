"""The one comment of a pull request: the reviews of all of its environments, for GitHub.

The reviews are data that the code of the pull request made: it may have written anything into
them. What is dangerous comes first, of each environment, and no environment takes the room of
another: a review that is too long is cut within its own share, and what it has opened is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.review.markdown import MARK, body, code, head, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_core.review.review import Review

LONGEST = 65_000
"""GitHub takes 65,536 characters."""
_MOST_ENVIRONMENTS = 40
_CUT = "… (cut: the summary of the run has all of it)"
_WARNING = (
    "> [!WARNING]\n> {whose} produced the data below, and could have written anything: "
    "check its changes to `bin/`, `constructs/`, `stacks/` and `.github/` before you trust "
    "it."
)


@dataclass(frozen=True)
class Origin:
    """Where the reviews are from: the run's address, the commit, and whether it is a fork's."""

    run: str
    commit: str
    fork: bool


def comment(reviews: Mapping[str, Review | None], origin: Origin) -> str:
    """The comment on the reviews by environment; None stands for one that cannot be read."""
    shown = dict(sorted(reviews.items())[:_MOST_ENVIRONMENTS])
    whose = "The code of a fork" if origin.fork else "The code of this pull request"
    top = [MARK, f"[Plan]({origin.run}) of {origin.commit[:12]}", "", _WARNING.format(whose=whose)]
    if len(reviews) > len(shown):
        top += ["", f"⛔ {len(reviews) - len(shown)} more environments are not shown"]
    text = joined([*top, ""])
    # Half of the room for what is dangerous, of each environment, before anything else of any.
    share = (LONGEST - len(text) - 100) // (2 * max(1, len(shown)))
    heads = [_within(share, _head_of(name, review)) for name, review in shown.items()]
    bodies = [
        _within(share, ["", f"## {code(name[:100])}", *body(review)])
        for name, review in shown.items()
        if review is not None
    ]
    return "\n".join([text, *heads, *bodies])


def _head_of(name: str, review: Review | None) -> list[str]:
    title = ["", f"## {code(name[:100])}", ""]
    if review is None:
        return [*title, "### ⛔ Its output is not a review: see the run"]
    return [*title, *head(review)]


def _within(most: int, lines: Iterable[str]) -> str:
    """As many of the lines as fit, with what they open closed."""
    kept: list[str] = []
    left = most - len(_CUT) - 40
    opened = 0
    for line in joined(lines).split("\n"):
        closes = len("</details>\n") * (opened + 1)
        if left - len(line) - 1 < closes:
            kept += ["", *["</details>"] * opened, "", _CUT]
            break
        kept.append(line)
        left -= len(line) + 1
        opened += line.startswith("<details") - (line == "</details>")
    return "\n".join(kept)
