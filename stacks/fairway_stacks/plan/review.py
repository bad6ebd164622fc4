"""The review of plans: the last step of every plan, and the basis of a deployment; also the stacks
of an approved review, and the order of their deployment."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from fairway_core.collector import gc_paused
from fairway_core.cost.cache import cached_prices
from fairway_core.findings import UserError
from fairway_core.review.changes import Action
from fairway_core.review.markdown import markdown
from fairway_core.review.plan import CROSS_STACK_OUTPUT, read_plan
from fairway_core.review.review import DATA_LOST, review
from fairway_core.review.serialization import review_from_json, review_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_core.review.plan import Plan
    from fairway_core.review.review import Review, StackReview
    from fairway_stacks.plan.planning import StackPlan
    from fairway_stacks.plan.stacks import StackFolder

# GitHub accepts summaries of up to 1 MiB.
_LONGEST = 1_000_000
_CUT = "\n\n… (cut: review.json has all of it)\n"


@dataclass(frozen=True)
class Reviewer:
    """A reviewer of plans against those of a base; `allow` holds the addresses of accepted losses.

    `left` names deployed environments that no file describes any more. `prices` is a file of the
    user's own prices.
    """

    base: Sequence[Plan] = ()
    allow: Sequence[str] = ()
    left: Sequence[str] = ()
    prices: Path | None = None

    def review(self, plans: Sequence[StackPlan]) -> Review:
        """Reviews the changes of these plans. Raises UserError if one of them is not a plan."""
        with gc_paused():
            return review(
                [read_plan(plan.argument) for plan in plans],
                base=self.base,
                allow=self.allow,
                prices=cached_prices(self.prices),
                left=self.left,
            )


def as_json(found: Review) -> str:
    """Returns the review for programs, as `fairway review --json` prints it."""
    return json.dumps(review_to_json(found), indent=1) + "\n"


def require_writable(report: Path | None) -> None:
    """Creates the folder of a report before anything is planned or applied. Raises OSError if
    nothing can be written there."""
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=report).close()


def write_report(found: Review, folder: Path) -> None:
    """Writes review.md and review.json, which contain no secrets, into `folder`."""
    (folder / "review.md").write_text(markdown(found), encoding="utf-8")
    (folder / "review.json").write_text(as_json(found), encoding="utf-8")


def add_summary(found: Review, file: Path) -> None:
    """Appends the review in Markdown to a file, such as the summary of a job on GitHub."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(truncate(markdown(found)))


def truncate(text: str, longest: int = _LONGEST) -> str:
    """Truncates the text to at most `longest` bytes."""
    if len(text.encode()) <= longest:
        return text
    kept = text.encode()[: longest - len(_CUT.encode())].decode(errors="ignore")
    return kept + _CUT


AGAIN = "plan again, and have that approved: fairway plan --report DIR"


@dataclass(frozen=True)
class Approved:
    """A stack of the review: its `state`, its `digest`, and its effect on the stacks after it.

    `removes` is True if it destroys something, `adds` if outputs that others read change; `losses`
    are the addresses by which data would be lost. `promised` is the approved review of a stack that
    waits: see `Review.continues`.
    """

    state: str
    digest: str
    removes: bool = False
    adds: bool = False
    losses: tuple[str, ...] = ()
    promised: StackReview | None = None


def read_approved(file: Path, again: str = AGAIN) -> dict[str, Approved]:
    """Returns the stacks of an approved review, by name. Raises UserError, with `again` as its
    hint, if the file is not a review."""
    try:
        return approved_of(review_from_json(json.loads(file.read_text(encoding="utf-8"))))
    except OSError as error:
        raise UserError.of("no-review", f"{file}: {error.strerror}", again) from None
    except (ValueError, RecursionError):
        raise UserError.of("no-review", f"{file} is not a review in JSON", again) from None


def data_loss(message: str) -> UserError:
    """Returns the error for a loss of data that nobody has allowed."""
    hint = "name each address that is meant: --allow ADDRESS, or FAIRWAY_ALLOW"
    return UserError.of("data-loss", message, hint, exit_code=DATA_LOST)


def approved_of(review: Review) -> dict[str, Approved]:
    """Returns the stacks of a review, by name."""
    return {
        each.stack: Approved(
            state=each.state,
            digest=each.digest,
            removes=any(change.action is Action.DESTROY for change in each.planned),
            adds=any(
                output.name.startswith(CROSS_STACK_OUTPUT) and output.action is not Action.DESTROY
                for output in each.outputs
            ),
            losses=tuple(loss.address for loss in each.losses),
            promised=each if review.continues and each.promised else None,
        )
        for each in review.stacks
    }


def in_deploy_order(
    stacks: Sequence[StackFolder], approved: Mapping[str, Approved]
) -> list[StackFolder]:
    """Returns the stacks in the order in which Azure accepts the changes.

    A resource must exist before it is used: network, data, compute. It must be unused before it is
    removed: a stack that destroys something, and adds nothing that others read, comes after those
    that read it. A subnet goes after the resources in it, a disk after the machine that it is
    attached to.
    """
    sorter = TopologicalSorter({stack.name: set[str]() for stack in stacks})
    for stack in stacks:
        for before in stack.dependencies:
            if _goes_last(before, stacks, approved):
                sorter.add(before, stack.name)
            else:
                sorter.add(stack.name, before)
    by_name = {stack.name: stack for stack in stacks}
    return [by_name[name] for name in sorter.static_order()]


def _goes_last(name: str, stacks: Sequence[StackFolder], approved: Mapping[str, Approved]) -> bool:
    """Returns True for a stack that only removes things, if no stack that reads it waits for it."""
    mine = approved.get(name)
    readers = [approved.get(stack.name) for stack in stacks if name in stack.dependencies]
    wait = any(reader is None or reader.state == "waiting" for reader in readers)
    return mine is not None and mine.removes and not mine.adds and not wait
