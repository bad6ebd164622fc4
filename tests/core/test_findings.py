"""Findings as the user who caused them sees them, and suggestions for misspelt words."""

import pytest

from fairway_core.findings import (
    Finding,
    Location,
    UserError,
    finding_facts,
    format_finding,
)
from fairway_core.suggestions import did_you_mean, nearest


def test_finding_without_location_is_one_line() -> None:
    assert format_finding(Finding("no-such-file", "a: no such file")) == (
        "error: a: no such file [no-such-file]"
    )


@pytest.mark.parametrize(
    ("text", "column", "length", "shown", "caret"),
    [
        ("\ta: b", 5, 1, "\ta: b", "\t   ^"),
        ("ab", 3, 1, "ab", "  ^"),
        ("ab", 1, 99, "ab", "^^"),
        ("", 1, 1, "", "^"),
        ("a" * 500, 401, 1, "a" * 120, " " * 60 + "^"),
        ("a" * 500, 1, 500, "a" * 120, "^" * 120),
        ("a" * 500, 500, 1, "a" * 61, " " * 60 + "^"),
    ],
)
def test_finding_caret_underlines_the_cause_in_truncated_line(
    text: str, column: int, length: int, shown: str, caret: str
) -> None:
    place = Location("f", 1, column, text, length)
    _, line, below = format_finding(Finding("id", "m", location=place)).splitlines()
    assert line == f"    1 | {shown}"
    assert below == f"      | {caret}"


@pytest.mark.parametrize(
    "bad", ["\x1b[31m", "\x07", "\x9b", "\r", "\u202e", "\x00", "\ud800", "\n"]
)
def test_finding_text_contains_no_control_characters(bad: str) -> None:
    place = Location(f"f{bad}", 1, 1, f"a{bad}b", 1)
    text = format_finding(Finding("id", f"m{bad}", f"do{bad}", location=place))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "\ufffd" in text
    assert Finding("id", "no run `a\nb`").message == "no run `a\\nb`"


@pytest.mark.parametrize(
    "line",
    [
        "notify: {webhook: https://user:bm90AA@example.com, on: [faild]}",
        "notify: {webhook: https://bm90AA@example.com, on: [faild]}",
        "webhook: https://hooks.slack.com/services/T0/B0/bm90AA",
        "- https://a.blob.core.windows.net/c?sv=2025&sig=bm90AAbm90AAbm90AA",
        "command: push --connection-string AccountName=x;AccountKey=bm90AA; other",
        "env: {DB_PASSWORD: bm90AA, gpus: 0}",
        "-s notify.webhook=https://user:bm90AA@example.com",
    ],
)
def test_finding_hides_a_line_with_a_secret(line: str) -> None:
    place = Location("job.yaml", 3, 40, line, 5)
    finding = Finding("bad-value", f"`on`: `{line}`", location=place)
    shown = format_finding(finding)
    assert shown.startswith("job.yaml:3:40: error: `on`: `(not shown)` [bad-value]\n")
    assert "bm90AA" not in f"{shown}{finding}{finding_facts(finding)}".replace(repr(place), "")


def test_user_error_carries_findings_and_exit_code() -> None:
    error = UserError([Finding("a", "one"), Finding("b", "two")])
    assert (str(error), error.exit_code) == ("one\ntwo", 2)
    error = UserError.of("c", "three", "do this\nor that", exit_code=4)
    assert (str(error), error.exit_code) == ("three\n  do this\n  or that", 4)


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
