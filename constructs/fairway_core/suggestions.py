"""Suggestions: the nearest known word for an unknown one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Below this similarity (0 to 100) a suggestion confuses more than it helps.
_NEAR_ENOUGH = 65


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word most similar to `word`, or None if none is near; one that begins with
    it is nearer than others, and so is one that has all of its parts.

    >>> nearest("Standard_H100", ["Standard_H16r", "Standard_ND96isr_H100_v5"])
    'Standard_ND96isr_H100_v5'
    """
    from rapidfuzz import fuzz, process, utils

    words, parts = list(known), _parts(word)
    begins = [each for each in words if each.startswith(word)]
    has_all = [each for each in words if parts and parts <= _parts(each)]
    for among in (begins, has_all, words):
        found = process.extractOne(word, among, scorer=fuzz.ratio, processor=utils.default_process)
        if found and found[1] >= _NEAR_ENOUGH:
            return str(found[0])
    return None


def _parts(word: str) -> set[str]:
    return {*re.findall(r"[a-z0-9]+", word.lower())}


def did_you_mean(word: str, known: Iterable[str], most: int = 12) -> str:
    """Returns a sentence with the nearest word, or with all if there are at most `most`, or "".

    >>> did_you_mean("openmp", ["openmpi", "torchrun"])
    'did you mean `openmpi`?'
    """
    words = sorted(set(known) - {word})
    near = nearest(word, words)
    if near is not None:
        return f"did you mean `{near}`?"
    if 0 < len(words) <= most:
        return "one of: " + ", ".join(words)
    return ""
