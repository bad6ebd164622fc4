"""YAML parsed to plain data with positions, and what is refused."""

import json
from typing import Any

import pytest

from fairway_core.findings import UserError
from fairway_core.yaml_text import Mark, nearest_mark, parse_yaml, unfit_character


def refused(text: str) -> tuple[str, int, int]:
    """Returns the finding's id, line and column."""
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "f")
    [finding] = caught.value.findings
    assert finding.location is not None
    assert finding.location.file == "f"
    return finding.id, *finding.position


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"),
        ("'7'", "7"),
        ("7", 7),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("-3", -3),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("~", None),
        ("Null", None),
        ("True", True),
        ("no", "no"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2024-01-31", "2024-01-31"),
        ("a!b", "a!b"),
        ('"!!str 7"', "!!str 7"),
        ('"\\ud83d\\ude80"', "🚀"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("[" * 64 + "7" + "]" * 64, json.loads("[" * 64 + "7" + "]" * 64)),
        ("|\n a\n b\n", "a\nb\n"),
        ("x: &a {p: 1}\ny: *a\n", {"x": {"p": 1}, "y": {"p": 1}}),
        ("x: &a {p: 1, q: 1}\ny: {<<: *a, q: 2}\n", {"x": {"p": 1, "q": 1}, "y": {"q": 2, "p": 1}}),
        (
            "x: &a {p: 1}\nz: &b {p: 2, r: 3}\ny: {<<: [*a, *b]}\n",
            {"x": {"p": 1}, "z": {"p": 2, "r": 3}, "y": {"p": 1, "r": 3}},
        ),
        (
            "x: &a {p: 1, q: 1}\ny: &b {<<: *a, p: 2}\nz: {<<: *b}",
            {"x": {"p": 1, "q": 1}, "y": {"p": 2, "q": 1}, "z": {"p": 2, "q": 1}},
        ),
    ],
)
def test_yaml_is_parsed_to_plain_data(text: str, value: Any) -> None:
    data = parse_yaml(text, "f").data
    assert data == value
    assert type(data) is type(value)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("a: [", ("yaml-syntax", 1, 5)),
        ("a: b: c", ("yaml-syntax", 1, 5)),
        ("--- a\n--- b", ("yaml-syntax", 2, 1)),
        ("a:\n  - \x01", ("yaml-syntax", 2, 5)),
        ('a:\n "\\UFFFFFFFF"', ("yaml-syntax", 2, 3)),
        ("%YAML 3.0\n--- a", ("yaml-syntax", 1, 1)),
        ("a: 1\nb: 2\na: 3", ("duplicate-key", 3, 1)),
        ("a: {b: 1, b: 2}", ("duplicate-key", 1, 11)),
        ("a: !x b", ("yaml-tag", 1, 4)),
        ("!x a: b", ("yaml-tag", 1, 1)),
        ("a: !!int 3", ("yaml-tag", 1, 4)),
        ("a: !!str 7", ("yaml-tag", 1, 4)),
        ("a: ! x", ("yaml-tag", 1, 4)),
        ("a: !!map {b: 1}", ("yaml-tag", 1, 4)),
        ("a: !!set {b}", ("yaml-tag", 1, 4)),
        ("a: !!binary aGk=", ("yaml-tag", 1, 4)),
        ("<<: !x {a: 1}", ("yaml-tag", 1, 5)),
        ("<<: 7", ("bad-merge", 1, 5)),
        ("<<: [7]", ("bad-merge", 1, 6)),
        ("1: a", ("bad-key", 1, 1)),
        ("true: a", ("bad-key", 1, 1)),
        ("? [a]\n: b", ("bad-key", 1, 3)),
        ("a: .inf", ("bad-number", 1, 4)),
        ("a: .nan", ("bad-number", 1, 4)),
        ("a: 1e999", ("bad-number", 1, 4)),
        ("a: " + "9" * 5000, ("bad-number", 1, 4)),
        ("a: 0x" + "f" * 5000, ("bad-number", 1, 4)),
        ("a: !!int x", ("yaml-tag", 1, 4)),
        ("a: !!bool x", ("yaml-tag", 1, 4)),
        ('a: "\\0"', ("bad-character", 1, 4)),
        ('"\\ud800": a', ("bad-character", 1, 1)),
        ("a: &a [*a]", ("alias-cycle", 1, 4)),
        ("a: &a {<<: *a}", ("yaml-nesting", 1, 1)),
        ("[" * 65 + "]" * 65, ("yaml-nesting", 1, 65)),
        ("{a: " * 2000 + "}" * 2000, ("yaml-nesting", 1, 257)),
        ("- " * 2000 + "a", ("yaml-nesting", 1, 129)),
    ],
)
def test_yaml_beyond_plain_data_is_refused_at_its_position(
    text: str, finding: tuple[str, int, int]
) -> None:
    assert refused(text) == finding


@pytest.mark.parametrize("merge", ["[{items}]", "{{<<: [{items}]}}"])
def test_yaml_alias_bomb_is_refused(merge: str) -> None:
    lines = ["a0: &a0 {x: y}"]
    for n in range(1, 12):
        items = merge.format(items=", ".join([f"*a{n - 1}"] * 9))
        lines.append(f"a{n}: &a{n} {items}")
    assert refused("\n".join(lines))[0] == "alias-bomb"


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing", "\ufeff"])
def test_yaml_file_that_is_empty_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="f: the file is empty") as caught:
        parse_yaml(text, "f")
    assert caught.value.findings[0].id == "empty-file"


def test_yaml_keys_and_values_have_positions() -> None:
    text = parse_yaml("a: 1\nb:\n  - x\n  - {c: two words}\nd:\n", "f")
    assert text.keys["a",] == Mark(1, 1, 1)
    assert text.values["a",] == Mark(1, 4, 1)
    assert text.values["b", 0] == Mark(3, 5, 1)
    assert text.keys["b", 1, "c"] == Mark(4, 6, 1)
    assert text.values["b", 1, "c"] == Mark(4, 9, 9)
    assert text.values["d",] == Mark(5, 1, 1), "what is not there is shown at its key"
    assert text.location(text.values["b", 1, "c"]).text == "  - {c: two words}"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_yaml_lines_end_at_line_breaks_but_not_unicode_separators(end: str) -> None:
    # Unicode's line separator does not end a line in YAML 1.2.
    text = parse_yaml(f"a: x\u2028y{end}b: 2{end}", "f")
    assert text.location(text.values["b",]).text == "b: 2"


@pytest.mark.parametrize("forbidden", ["\x07", "\x7f", "\x80", "\ufffe"])
@pytest.mark.parametrize("before", ["a", "×", "\u200b"])
def test_yaml_refuses_forbidden_character_beside_any_other(before: str, forbidden: str) -> None:
    assert refused(f"a: 1\n# {before}{forbidden}\n") == ("yaml-syntax", 2, 4)


def test_yaml_nearest_mark_falls_back_to_closest_parent() -> None:
    text = parse_yaml("a: {b: 1}", "f")
    assert nearest_mark(("a", "b", "c"), text.values) == text.values["a", "b"]
    assert nearest_mark(("x",), text.values) == text.values[()]
    assert nearest_mark(("x",)) is None


def test_unfit_character_finds_nul_and_surrogates() -> None:
    assert unfit_character("fine \x1b ☃ 🚀\n") is None
    assert unfit_character("a\0") == "U+0000"
    assert unfit_character("\udfff") == "U+DFFF"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: b: c", "indent it as its neighbours, or quote text that has `: ` in it"),
        ("a:\n\tb: 1", "indent with spaces"),
        ("a: @x", "put the text in quotes"),
        ('a: "\\q"', "write \\\\ for \\, or put the text in single quotes"),
        ("a: 'x", "close the quote that is open here"),
        ("<<: 1", "for example `<<: *anchor`"),
    ],
)
def test_yaml_syntax_error_has_a_hint(text: str, hint: str) -> None:
    """Further hints are on the golden page of messages about job files."""
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "job.yaml")
    assert caught.value.findings[0].hint == hint
