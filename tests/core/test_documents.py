"""YAML files validated into models: types, locations, and messages for invalid content."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from endings import refused
from pydantic import BaseModel, Field

from fairway_core import documents
from fairway_core.documents import Check, Document, FieldError, Model, read, require
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml


def _no_b(value: dict[str, Any]) -> None:
    if "b" in value:
        raise FieldError("`b` is taken", "rename it", path=("b",))


EVEN = require(lambda value: value % 2 == 0, "{} is odd", "add one")


class Ssd(Model):
    kind: Literal["ssd"]
    gib: int


class Share(Model):
    kind: Literal["share"]
    path: Path
    quota: int | None = None


class Section(Model):
    """A part of the sample."""

    size: Annotated[int, EVEN] = 2
    mode: Literal["fast", "slow"] = "fast"
    scale: float = 1.0


class Sample(Model):
    name: Annotated[str, Field(min_length=2, max_length=5)] = "xx"
    section: Section = Section()
    disks: dict[str, Annotated[Ssd | Share, Field(discriminator="kind")]] = Field(
        default_factory=dict
    )
    words: tuple[str, ...] = ()
    table: Annotated[dict[str, int], Check(_no_b)] = Field(default_factory=dict)
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.5
    renamed: int = Field(default=1, alias="import")
    on: bool = False


class Open(BaseModel):
    words: list[Any]


def document(text: str) -> Document:
    parsed = parse_yaml(text, "f")
    return Document(parsed, parsed.data)


def findings(text: str) -> list[Finding]:
    with pytest.raises(UserError) as caught:
        document(text).validate(Sample)
    assert all(finding.location for finding in caught.value.findings)
    return list(caught.value.findings)


def test_document_is_validated_into_a_model() -> None:
    text = "disks: {a: {kind: share, path: /x}}\nwords: [a, b]\nratio: 0.25\nimport: 3\non: true\n"
    sample = document(text).validate(Sample)
    assert sample.disks["a"] == Share(kind="share", path=Path("/x"))
    assert sample.words == ("a", "b")
    assert (sample.ratio, sample.renamed, sample.on) == (0.25, 3, True)
    assert document("section: {scale: 2}").validate(Sample).section.scale == 2.0


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        ("nam: ab", "nam", "unknown key `nam`", "did you mean `name`?"),
        ("imprt: 1", "imprt", "unknown key `imprt`", "did you mean `import`?"),
        ("renamed: 1", "renamed", "unknown key `renamed`", "did you mean `name`?"),
        ("section: {sise: 2}", "section.sise", "unknown key `sise`", "did you mean `size`?"),
        ("name: a", "name", "expected text with a length of at least 2, found the text `a`", ""),
        ("name: abcdef", "name", "expected text with a length of at most 5", ""),
        ("name: 12", "name", "expected text, found the number 12", 'put it in quotes: "12"'),
        ("name: 1.10", "name", "expected text, found the number", 'put it in quotes: "1.10"'),
        ("name: 12345e78", "name", "expected text, found the number", 'quotes: "12345e78"'),
        ("name: 01234", "name", "expected text, found the number 1234", 'quotes: "01234"'),
        ("ratio: &a 0.10\nname: *a", "name", "expected text, found the number", 'quotes: "0.10"'),
        ("name: True", "name", "expected text, found `true`", 'put it in quotes: "True"'),
        ("name: true", "name", "expected text, found `true`", 'put it in quotes: "true"'),
        ("name: ", "name", "expected text, found nothing", "give it a value or remove the key"),
        ("section: 3", "section", "expected a mapping, found the number 3", "`section: {size: 3}`"),
        ("section: {size: 3}", "section.size", "`section.size`: 3 is odd", "add one"),
        ("section: {size: 2.0}", "section.size", "a whole number, found the number 2.0", ""),
        ("section: {size: -1.0e+300}", "section.size", "a whole number, found the number -", ""),
        ("section: {mode: fats}", "section.mode", "one of `fast`, `slow`", "did you mean `fast`?"),
        ("section: {mode: 3}", "section.mode", "one of `fast`, `slow`, found the number 3", ""),
        ("section: {scale: a}", "section.scale", "expected a number, found the text `a`", ""),
        ("words: a", "words", "expected a list, found the text `a`", "`words: [a]`"),
        ("words: '{a}'", "words", "expected a list, found the text `{a}`", '`words: ["{a}"]`'),
        ("words: [a, 2]", "words.1", "expected text, found the number 2", 'in quotes: "2"'),
        ("table: {a: x}", "table.a", "expected a whole number, found the text `x`", ""),
        ("table: {b: 1}", "table.b", "`table.b`: `b` is taken", "rename it"),
        ("ratio: 1", "ratio", "expected a number below 1", ""),
        ("ratio: 0", "ratio", "expected a number above 0", ""),
        ("on: 1", "on", "expected true or false, found the number 1", ""),
        ("[]", "", "expected a mapping, found a list", ""),
    ],
)
def test_document_error_is_one_finding_with_path_and_hint(
    text: str, path: str, message: str, hint: str
) -> None:
    [finding] = findings(text)
    assert finding.path == path
    assert message in finding.message
    assert hint in finding.hint
    assert bool(hint) == bool(finding.hint)


@pytest.mark.parametrize(
    ("assignment", "quoted"),
    [
        ("words.0=1.10", "-s 'words.0=\"1.10\"'"),
        ("words=[a, 1.10]", '"1.10"'),
        ("words=[1e3, 01]", '"1e3"'),
    ],
)
def test_document_override_hint_quotes_number_as_typed(assignment: str, quoted: str) -> None:
    changed = document("words: [1]").override([assignment], Open)
    with pytest.raises(UserError) as caught:
        changed.validate(Sample)
    assert caught.value.findings[0].hint == f"put it in quotes: {quoted}"


def test_document_error_in_union_refers_to_the_chosen_branch() -> None:
    [finding] = findings("disks: {a: {kind: share, pth: /x, path: /y}}")
    assert (finding.path, finding.hint) == ("disks.a.pth", "did you mean `path`?")


def test_document_errors_are_in_order_of_the_file() -> None:
    found = findings("words: 3\nxyzzy: 1\nsection: {size: 5}\nname: [\n]\n")
    assert [finding.position[0] for finding in found] == [1, 2, 3, 4]


def test_document_error_of_a_key_underlines_the_key() -> None:
    class Named(Model):
        table: dict[Annotated[str, Field(pattern="^[a-z]+$")], int]

    finding = refused(lambda: document("table: {good: 1, B-1: 2}").validate(Named))
    assert finding.location is not None
    assert (finding.location.column, finding.location.length) == (18, 3)


def test_document_error_of_missing_key_points_to_its_parent() -> None:
    class Outer(Model):
        inner: dict[str, Ssd]

    finding = refused(lambda: document("inner:\n  a: {kind: ssd}\n").validate(Outer))
    assert (finding.id, finding.path) == ("missing-key", "inner.a.gib")
    assert finding.position == (2, 6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: \xff", "byte 0xff is not UTF-8"),
        (b"name: ab\n# caf\xe9\n", "byte 0xe9 is not UTF-8"),
        (b"", "the file is empty"),
    ],
)
def test_document_that_is_empty_or_not_utf8_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "f.yaml").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "f.yaml")


def test_document_with_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfname: ab\n")
    assert read(tmp_path / "f.yaml").data == {"name": "ab"}


def test_document_path_that_is_missing_or_no_file_is_refused_with_hint(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text("name: ab")
    with pytest.raises(UserError, match="no such file") as caught:
        read(tmp_path / "deom.yaml")
    assert caught.value.findings[0].hint == "did you mean `demo.yaml`?"
    with pytest.raises(UserError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(UserError, match="Not a directory"):
        read(tmp_path / "demo.yaml" / "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: is a pipe") as caught:
        read(tmp_path / "pipe")
    assert caught.value.findings[0].hint == "name a YAML file"


def test_document_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_LARGEST_FILE", 8)
    (tmp_path / "f.yaml").write_text("name: ab")
    assert read(tmp_path / "f.yaml").data == {"name": "ab"}
    (tmp_path / "f.yaml").write_text("name: abc")
    with pytest.raises(UserError, match="larger than"):
        read(tmp_path / "f.yaml")


def test_document_error_of_override_points_to_the_command_line(tmp_path: Path) -> None:
    changed = document("section: {size: 4}").override(["section.size=3"], Sample)
    with pytest.raises(UserError) as caught:
        changed.validate(Sample)
    place = caught.value.findings[0].location
    assert place is not None
    assert (place.file, place.text, place.column) == ("command line", "-s section.size=3", 17)
    assert changed.location(("section",)).file == "f"
    made = document("words: [a]").override(["words=[b]", "disks.0.kind=ssd"], Sample)
    assert made.location(("disks", "0")).text == "-s disks.0.kind=ssd", "it is not in the file"
    assert made.location(("name",)).file == "f"


_LOADER = "pydantic.plugin._loader"


@pytest.mark.parametrize("is_loaded", [False, True])
def test_document_models_are_built_without_loading_pydantic_plugins(
    monkeypatch: pytest.MonkeyPatch, *, is_loaded: bool
) -> None:
    """Models of other libraries still get their plugins, and local names of a function resolve."""
    others = SimpleNamespace(get_plugins=lambda: pytest.fail("it looked for plugins"))
    if is_loaded:
        monkeypatch.setitem(sys.modules, _LOADER, others)
    else:
        monkeypatch.delitem(sys.modules, _LOADER, raising=False)

    class Outer(Model):
        inner: "Inner"

    class Inner(Model):
        value: int

    assert Outer.model_validate({"inner": {"value": 1}}).inner.value == 1  # type: ignore[comparison-overlap]
    assert sys.modules.get(_LOADER) is (others if is_loaded else None)
    assert Outer.model_rebuild() is None


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"secton": Section()}, "unknown key `secton`", "did you mean `section`?"),
        ({"section": {"size": 3}}, "`section.size`: 3 is odd", "add one"),
        ({"disks": {"a": {"kind": "share"}}}, "`disks.a.path` is missing", "add `path=`"),
        ({"name": 5}, "`name`: expected text, found the number 5", "put it in quotes: '5'"),
    ],
)
def test_document_error_in_python_has_the_same_finding_without_location(
    fields: dict[str, Any], message: str, hint: str
) -> None:
    finding = refused(lambda: Sample(**fields))
    assert (finding.message, finding.hint, finding.location) == (message, hint, None)
