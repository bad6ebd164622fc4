"""Records that cross to another machine: what is none is named, and nothing of it is taken over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_agent.records import JsonRecord, Unfit


@dataclass(frozen=True, slots=True)
class Node(JsonRecord):
    CALLED = "a node"

    name: str
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Answer(JsonRecord):
    CALLED = "the answer"

    nodes: tuple[Node, ...]
    time: float
    is_up: bool
    last: Node | None
    by_run: Mapping[str, Node | None] = field(default_factory=dict)
    held: tuple[tuple[str, ...], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    more: object = None


LEAST = {"nodes": [], "time": 1, "is_up": True, "last": None}


NODES = st.builds(Node, st.text(max_size=4), st.integers(0, 99))
SECONDS = st.floats(0, 1e15)
ANSWERS = st.builds(
    Answer,
    *(st.lists(NODES, max_size=2).map(tuple), SECONDS, st.booleans(), st.none() | NODES),
    by_run=st.dictionaries(st.text(max_size=4), st.none() | NODES, max_size=2),
    held=st.lists(st.lists(st.text(max_size=4), max_size=2).map(tuple), max_size=2).map(tuple),
    sizes=st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
    reason=st.none() | st.text(max_size=4),
    more=st.none() | st.dictionaries(st.text(max_size=4), st.lists(st.integers() | st.text())),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@tried
@given(ANSWERS)
def test_json_record_round_trips(whole: Answer) -> None:
    assert Answer.from_json(json.loads(json.dumps(whole.to_json()))) == whole


@tried
@given(st.data(), ANSWERS)
def test_damaged_record_is_named_or_holds_what_it_may(data: st.DataObject, whole: Answer) -> None:
    """Anything in place of any part of it, on the way down a path."""
    facts = json.loads(json.dumps(whole.to_json()))
    place = facts
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    read, said = whole, ""
    try:
        read = Answer.from_json(facts)
    except Unfit as unfit:
        said = str(unfit)
    assert said.isprintable()
    assert repr(Answer.from_json(json.loads(json.dumps(read.to_json())))) == repr(read)


def test_json_record_uses_defaults_and_ignores_unknown_fields() -> None:
    assert Answer.from_json({**LEAST, "newer": 1}) == Answer((), 1.0, is_up=True, last=None)


@pytest.mark.parametrize("name", LEAST)
def test_json_record_names_a_missing_required_field(name: str) -> None:
    with pytest.raises(Unfit, match=f"`{name}` of the answer is missing"):
        Answer.from_json({key: value for key, value in LEAST.items() if key != name})


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"nodes": None}, "`nodes` of the answer is None"),
        ({"nodes": {}}, "`nodes` of the answer is {}"),
        ({"nodes": [3]}, "a node is not a mapping"),
        ({"nodes": [{"gpus": 8}]}, "`name` of a node is missing"),
        ({"nodes": [{"name": "a", "gpus": True}]}, "`gpus` of a node is True"),
        ({"nodes": [{"name": "a", "gpus": -1}]}, "`gpus` of a node is -1"),
        ({"nodes": [{"name": "a", "gpus": 1.5}]}, "`gpus` of a node is 1.5"),
        ({"nodes": [{"name": "a", "gpus": None}]}, "`gpus` of a node is None"),
        ({"nodes": [{"name": ["\x1b[2J"]}]}, "`name` of a node is"),
        ({"time": float("nan")}, "`time` of the answer is nan"),
        ({"time": 10**400}, "`time` of the answer is 1000"),
        ({"is_up": 1}, "`is_up` of the answer is 1"),
        ({"is_up": None}, "`is_up` of the answer is None"),
        ({"last": []}, "a node is not a mapping"),
        ({"by_run": []}, r"`by_run` of the answer is \[\]"),
        ({"by_run": {"a": {}}}, "`name` of a node is missing"),
        ({"held": ["7"]}, "`0` of `held` of the answer is 7"),
        ({"held": [["a", 7]]}, "`1` of `0` of `held` of the answer is 7"),
        ({"sizes": {"a": "x"}}, "`a` of `sizes` of the answer is x"),
        ({"sizes": {"\x1b[2J": "x"}}, "` of `sizes` of the answer is x"),
        ({"reason": 7}, "`reason` of the answer is 7"),
    ],
)
def test_json_record_names_a_field_of_the_wrong_type(facts: dict[str, object], said: str) -> None:
    with pytest.raises(Unfit, match=said) as caught:
        Answer.from_json({**LEAST, **facts})
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("facts", [None, [], "x", 7])
def test_json_record_refuses_facts_that_are_no_mapping(facts: object) -> None:
    with pytest.raises(Unfit, match="the answer is not a mapping"):
        Answer.from_json(facts)
