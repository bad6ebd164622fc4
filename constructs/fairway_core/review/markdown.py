"""Reviews as comments on a pull request, in GitHub's Markdown.

All text from a plan is untrusted: a pull request's author names the resources, and may have written
anything into a review. Such text is inside `<code>`, where mentions and links have no effect, and
characters with a meaning in Markdown or HTML are written as entities where they would have it. The
most important lines come first, as a comment that is too long is cut; with several environments,
each has its own share of the space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import Severity, counted, printable
from fairway_core.review import lines
from fairway_core.review.changes import Action
from fairway_core.review.lines import DONE, Untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fairway_core.findings import Finding
    from fairway_core.review.changes import Change
    from fairway_core.review.lines import Line
    from fairway_core.review.review import Review, StackReview


MARK = "<!-- fairway review -->"
"""The first line, which identifies the comment for updates in place."""

# Nobody reads a longer list; destroyed and replaced resources are always listed.
_MOST_LINES = 200
_ALWAYS_LISTED = (Action.DESTROY, Action.REPLACE)
# Actions that are shown unfolded, up to `_MOST_SHOWN` lines.
_SHOWN = (Action.DESTROY, Action.REPLACE, Action.CHANGE)
_MOST_SHOWN = 40

# Underscores between letters, dots and brackets are kept: names of resources are full of them.
_MEANT = re.compile(
    r"[&<>`*@#~|\\$:!^]|_(?![A-Za-z0-9])|(?<![A-Za-z0-9])_|(?<=[wW]{3})\.|(?<=\])\("
)


def markdown(review: Review) -> str:
    """Returns the complete comment, which ends in a newline."""
    return join_lines([MARK, *head(review), *body(review), ""])


def body(review: Review) -> Iterator[str]:
    """Yields the lines after the head: costs, each stack, and the digest."""
    yield from _cost(review)
    for stack in review.stacks:
        yield from ("", f"#### {code(stack.stack)}", "")
        yield from list(_stack(stack)) or ["nothing would change"]
    yield from ("", f"Digest: `{review.digest}`")


def join_lines(lines: Iterable[str]) -> str:
    """Joins the lines, and reduces consecutive empty lines to one."""
    all_lines = list(lines)
    pairs = zip(all_lines, [MARK, *all_lines], strict=False)
    return "\n".join(line for line, before in pairs if line or before)


def code(text: str) -> str:
    """Returns untrusted text as inert code.

    >>> code("@all <b>")
    '<code>&#64;all &#60;b&#62;</code>'
    """
    # Line ends and characters that change the direction of text would falsify the text.
    return f"<code>{_MEANT.sub(lambda found: f'&#{ord(found[0])};', printable(text))}</code>"


def _written(line: Line) -> str:
    return "".join(code(piece.text) if isinstance(piece, Untrusted) else piece for piece in line)


def head(review: Review) -> Iterator[str]:
    """Yields the most important lines: the summary, dangers, and findings."""
    lost = review.unapproved_losses
    titles = [
        (lost, "⛔ Data would be lost"),
        (review.rejected_by_azure, "⛔ Azure would refuse this"),
    ]
    yield "### " + next((title for found, title in titles if found), "What Terraform would do")
    yield ""
    yield f"{lines.summary(review).capitalize()}."
    if len(review.stacks) > 1:
        yield ""
        for stack in review.stacks:
            yield f"- {code(stack.stack)}: {lines.summary_of_stack(stack)}"
    if review.losses:
        yield ""
    for loss in review.losses:
        line: Line = [
            "✔️ allowed: " if loss.allowed else "⛔ ",
            Untrusted(loss.how.replace("`", "")),
        ]
        for number, attribute in enumerate(loss.forced):
            line += [", " if number else "; ", *lines.attribute_line(attribute)[:5]]
        yield f"- {_written([*line, ' (', Untrusted(loss.stack), ')'])}"
    if lost:
        yield from ("", f"To accept all of that: {code(lines.allow_options(review.losses))}")
    for finding in review.findings:
        yield from ("", f"- ⚠️ {code(_words(finding))} ({code(finding.id)})")
    for severity, mark in ((Severity.ERROR, "⛔"), (Severity.WARNING, "⚠️")):
        yield from _findings(review, severity, mark)


def _findings(review: Review, severity: Severity, mark: str) -> Iterator[str]:
    from fairway_core.review.review import LOSS

    found = [
        (stack, finding)
        for stack in review.stacks
        for finding in stack.findings
        if finding.severity is severity and finding.id != LOSS
    ]
    if found:
        yield ""
    for stack, finding in found:
        yield f"- {mark} {code(_words(finding))} ({code(stack.stack)}, {code(finding.id)})"


def _words(finding: Finding) -> str:
    return f"{finding.message} – {finding.hint}".replace("`", "")


def _cost(review: Review) -> Iterator[str]:
    if review.cost is None:
        return
    first, *rest = (_written(line) for line in lines.cost_lines(review.cost, most=_MOST_LINES))
    yield from ("", f"**Cost:** {first}", "")
    if rest:
        yield from _folded("cost by resource", [f"- {line}" for line in rest])


def _stack(stack: StackReview) -> Iterator[str]:
    if stack.state == "waiting":
        yield _written(lines.waiting_line(stack))
        yield ""
    for action, word in DONE.items():
        yield from _changes([each for each in stack.changes if each.action is action], word)
    if stack.outputs:
        yield from _folded(
            counted(len(stack.outputs), "output"),
            [f"- {_written(lines.output_line(each))}" for each in stack.outputs],
        )
    yield from _changes(stack.in_base, "what the base branch would already do", quiet=True)
    yield from _changes(stack.only_in_base, "what only the base branch would do", quiet=True)
    yield from _changes(stack.drift, "changed outside of Terraform (drift)")
    if stack.format_only:
        yield from (_written(lines.reread_line(stack)), "")


def _changes(changes: Sequence[Change], title: str, *, quiet: bool = False) -> Iterator[str]:
    """Yields the changes under a title, folded if they are `quiet`, many, or less important."""
    body = []
    for number, change in enumerate(changes):
        if number >= _MOST_LINES and change.action not in _ALWAYS_LISTED:
            continue
        body.append(f"- {_written(lines.change_line(change))}")
        body += [f"  - {_written(line)}" for line in lines.attribute_lines(change)]
    listed = sum(line.startswith("- ") for line in body)
    if listed < len(changes):
        body.append(f"- and {len(changes) - listed:,} more, see `--json`")
    if body:
        is_open = changes[0].action in _SHOWN and len(body) <= _MOST_SHOWN
        yield from _folded(f"{len(changes):,} {title}", body, is_open=is_open and not quiet)


def _folded(title: str, body: Iterable[str], *, is_open: bool = False) -> Iterator[str]:
    yield from (
        "<details open>" if is_open else "<details>",
        f"<summary>{title}</summary>",
        "",
        *body,
        "",
        "</details>",
        "",
    )


LONGEST = 65_000
"""GitHub accepts 65,536 characters."""
_MOST_ENVIRONMENTS = 40
_CUT = "… (cut: the summary of the run has all of it)"
_WARNING = (
    "> [!WARNING]\n> {whose} produced the data below, and could have written anything: "
    "check its changes to `requirements.txt`, `wheels/`, `fairway.yaml`, `.github/` and all Python "
    "files before you trust it."
)


@dataclass(frozen=True)
class Origin:
    """The origin of the reviews: the run's address, the commit, and whether it is from a fork."""

    run: str
    commit: str
    fork: bool


def comment(reviews: Mapping[str, Review | None], origin: Origin) -> str:
    """Returns the comment on the reviews by environment; None stands for an unreadable one."""
    shown = dict(sorted(reviews.items())[:_MOST_ENVIRONMENTS])
    whose = "The code of a fork" if origin.fork else "The code of this pull request"
    top = [MARK, f"[Plan]({origin.run}) of {origin.commit[:12]}", "", _WARNING.format(whose=whose)]
    if len(reviews) > len(shown):
        top += ["", f"⛔ {len(reviews) - len(shown)} more environments are not shown"]
    text = join_lines([*top, ""])
    # Half of the space is for the heads of all environments, before the rest of any.
    share = (LONGEST - len(text) - 100) // (2 * max(1, len(shown)))
    heads, bodies = [], []
    for name, review in shown.items():
        title = ["", f"## {code(name[:100])}"]
        top = ["### ⛔ Its output is not a review: see the run"]
        if review is not None:
            top = [*head(review)]
            bodies.append(_within(share, [*title, *body(review)]))
        heads.append(_within(share, [*title, "", *top]))
    return "\n".join([text, *heads, *bodies])


def _within(most: int, lines: Iterable[str]) -> str:
    """Returns as many lines as fit, and closes the elements that they open."""
    kept: list[str] = []
    left = most - len(_CUT) - 40
    opened = 0
    for line in join_lines(lines).split("\n"):
        closes = len("</details>\n") * (opened + 1)
        if left - len(line) - 1 < closes:
            kept += ["", *["</details>"] * opened, "", _CUT]
            break
        kept.append(line)
        left -= len(line) + 1
        opened += line.startswith("<details") - (line == "</details>")
    return "\n".join(kept)
