"""The two examples at the end of a rule's docstring: one that trips it, one that does not."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway_core.checks.check import Check

_HEADINGS = re.compile(r"^(Wrong|Right):\n", re.MULTILINE)


@dataclass(frozen=True)
class Explanation:
    """A rule's docstring taken apart; `wrong` and `right` are YAML."""

    text: str
    wrong: str
    right: str


def explain(check: Check) -> Explanation:
    """What the check's docstring says; ValueError where it lacks an example.

    >>> explain(REGISTERED["no-owner"]).wrong  # doctest: +SKIP
    'tags: {}'
    """
    parts = _HEADINGS.split(inspect.getdoc(check.rule) or "")
    if parts[1::2] != ["Wrong", "Right"]:
        raise ValueError(f"{check.id}: its docstring must end in `Wrong:` and `Right:`")
    text, _, wrong, _, right = parts
    return Explanation(text.strip(), _unindented(wrong), _unindented(right))


def _unindented(block: str) -> str:
    return inspect.cleandoc("\n" + block).strip()
