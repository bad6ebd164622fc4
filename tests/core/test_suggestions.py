"""Suggestions for misspelt words."""

import pytest

from fairway_core.suggestions import did_you_mean, nearest

WORDS = ["command", "nodes", "processes_per_node"]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("comand", "command"),
        ("Command", "command"),
        ("node", "nodes"),
        ("processes-per-node", "processes_per_node"),
        ("zzz", None),
        ("", None),
        ("\x1b[31m", None),
    ],
)
def test_nearest_returns_closest_word_or_none(word: str, found: str | None) -> None:
    assert nearest(word, WORDS) == found


def test_nearest_prefers_a_word_that_begins_with_the_given_one() -> None:
    assert nearest("NC40", ["NC24", "NC40ads"]) == "NC40ads"


def test_nearest_without_candidates_returns_none() -> None:
    assert nearest("a", []) is None
    assert did_you_mean("a", []) == ""


def test_did_you_mean_lists_few_words_but_not_many() -> None:
    assert did_you_mean("zzz", ["b", "a", "a"]) == "one of: a, b"
    assert did_you_mean("a", ["a", "b"]) == "one of: b"
    assert did_you_mean("zzz", [f"word{n}" for n in range(13)]) == ""
