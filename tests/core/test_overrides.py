"""`-s key=value`: values are converted to the field's type."""

from typing import Any

import pytest
from endings import refused
from pydantic import Field

from fairway_core.documents import Model
from fairway_core.findings import UserError
from fairway_core.overrides import apply


class Part(Model):
    size: int = 1
    label: str = ""


class Sample(Model):
    text: str = ""
    maybe: str | None = None
    count: int = 1
    either: int | Part = 1
    on: bool = False
    part: Part = Part()
    parts: list[Part] = Field(default_factory=list)
    params: dict[str, str | int | float | bool | list[str | int]] = Field(default_factory=dict)
    anything: dict[str, Any] = Field(default_factory=dict)


DATA = {
    "text": "a",
    "count": 4,
    "parts": [{"size": 1}, {"size": 2}],
    "params": {"n": 3, "x": 0.5, "t": "a", "on": True, "list": [1, 2]},
    "anything": {"n": 3, "t": "a"},
}


def get(data: Any, path: str) -> Any:
    for step in path.split("."):
        data = data[int(step)] if isinstance(data, list) else data[step]
    return data


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("text=3", "3"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=[1", "[1"),
        ("text= a ", " a "),
        ("maybe=null", "null"),
        ("count=0x10", 16),
        ("count=", None),
        ("count=three", "three"),
        ("on=true", True),
        ("either=3", 3),
        ("either={size: 2}", {"size": 2}),
        ("part.size=3", 3),
        ("part={size: 3, label: b}", {"size": 3, "label": "b"}),
        ("parts.1.size=9", 9),
        ("parts.0.label=7", "7"),
        ("params.n=4", 4),
        ("params.n=4.5", 4.5),
        ("params.x=1", 1.0),
        ("params.t=1", "1"),
        ("params.t=a: b", "a: b"),
        ("params.on=false", False),
        ("params.list.0=5", 5),
        ("params.list=[a, 3]", ["a", 3]),
        ("params.new=3", 3),
        ("params.new=true", True),
        ("params.new=a b", "a b"),
        ("params.new=a: b", "a: b"),
        ("params.new={a", "{a"),
        ("params.new=*.txt", "*.txt"),
        ("params.new=@file", "@file"),
        ("params.new=#1", "#1"),
        ("params.new=!x", "!x"),
        ("params.new=", ""),
        ("anything.t=5", "5"),
        ("anything.new={a: 1}", {"a": 1}),
        ("unknown=1", 1),
    ],
)
def test_override_value_is_converted_to_field_type(assignment: str, value: Any) -> None:
    data, path, place = apply(DATA, assignment, Sample)
    found = get(data, assignment.partition("=")[0])
    assert found == value
    assert type(found) is type(value)
    assert ".".join(map(str, path)) == assignment.partition("=")[0]
    assert place.text == f"-s {assignment}"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("count", "expected KEY=VALUE"),
        ("=1", "expected KEY=VALUE"),
        ("part.=1", "expected KEY=VALUE"),
        ("", "expected KEY=VALUE"),
        ("count=[", "the value cannot be read"),
        ("count=!!float 3", "YAML tag"),
        ("count=!x 3", "YAML tag"),
        ("text.x=1", "`text` is the text `a`: there is nothing below it"),
        ("on.x=1", "`on` takes one value"),
        ("parts.2.size=1", "`parts` has no item 2: it has 2, counted from 0"),
        ("parts.-1.size=1", "has no item -1"),
        ("parts.²=1", "has no item ²"),
        ("parst.0=1", "unknown key `parst`"),
        ("params.n=two", "expected a number, found the text `two`"),
        ("params.n=[1]", "expected a number, found a list"),
        ("params.n=true", "expected the same kind of value"),
        ("params.on=1", "expected the same kind of value"),
        ("params.n=.inf", "`.inf` is not a finite number"),
        ("count=" + "9" * 5001, f"`{'9' * 40}…` is too large a number"),
        ("params.x=1" + "0" * 400, "is too large a number"),
        ("text=\udcff", "U+DCFF"),
        ("text=\0", "U+0000"),
    ],
)
def test_override_that_is_invalid_is_refused_with_location(assignment: str, message: str) -> None:
    finding = refused(lambda: apply(DATA, assignment, Sample))
    assert message in finding.message
    if "KEY=VALUE" not in message:
        assert finding.location is not None
        assert finding.location.file == "command line"


def test_override_leaves_given_data_unchanged() -> None:
    before = repr(DATA)
    apply(DATA, "parts.0.size=7", Sample)
    assert repr(DATA) == before


def test_override_of_a_list_document_is_refused() -> None:
    with pytest.raises(UserError, match="the document is a list"):
        apply([1], "text=a", Sample)
