"""`fairway comment`: the comment of a pull request, from the reviews that its code made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

_PREFIX = "review-"


def command(
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
    from fairway_core.findings import UserError
    from fairway_core.review.comment import Origin, comment
    from fairway_core.review.facts import read_review

    reviews = {}
    for each in sorted(folder.glob(f"{_PREFIX}*")):
        try:
            found = read_review(each / "review.json")
        except UserError:
            found = None
        reviews[each.name.removeprefix(_PREFIX)] = found
    if not reviews:
        raise UserError.of("no-review", f"{folder} holds no review", "fairway plan --report DIR")
    print(comment(reviews, Origin(run, commit, fork=head != base)), end="")
