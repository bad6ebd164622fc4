"""Quick dataclasses behave like Python's own, except in ways that the type checker refuses."""

import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, fields, replace
from typing import ClassVar

import pytest

from fairway_agent import quick


@quick.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    note: str = field(default="", compare=False)


@quick.dataclass
class Shelf:
    books: list[str] = field(default_factory=list)
    key: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return "a shelf"


@quick.dataclass(frozen=True)
class Place(Point):
    name: str = "here"


@quick.dataclass(eq=False)
class Door:
    secret: str = field(default="open", repr=False)


def test_quick_dataclass_compares_hashes_and_prints_like_a_standard_one() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != (1, 2)
    assert Place(1, 2) != Point(1, 2)
    assert {Point(1): "one"}[Point(1, note="other")] == "one"
    assert Shelf(["a"]) == Shelf(["a"])
    assert Shelf.__hash__ is None
    assert Door() != Door()
    assert len({Door(), Door()}) == 2
    own = dataclasses.make_dataclass("Point", [("x", int), ("y", int), ("note", str)])
    assert repr(Point(1, note="a")) == repr(own(1, 0, "a"))
    assert repr(Door()) == "Door()"
    assert repr(Shelf()) == "a shelf"
    assert replace(Point(1, 2), y=3) == Point(1, 3)
    assert [each.name for each in fields(Place)] == ["x", "y", "note", "name"]
    assert pickle.loads(pickle.dumps(Point(1, 2, "a"))).note == "a"


@quick.dataclass
class Box:
    name: str
    room: int = field(default=3, kw_only=True)
    things: list[str] = field(default_factory=list, init=False)
    label: str = field(init=False)
    room_: int = 1

    def __post_init__(self) -> None:
        self.label = f"{self.name}: {self.room}"


def test_quick_dataclass_takes_the_arguments_of_a_standard_one() -> None:
    box = Box("a", 5, room=4)
    assert (box.name, box.room, box.room_, box.things, box.label) == ("a", 4, 5, [], "a: 4")
    assert Box("b").things is not box.things
    for given in ({}, {"name": "a", "things": []}, {"name": "a", "rooms": 1}):
        with pytest.raises(TypeError, match=r"^Box\.__init__\(\) "):
            Box(**given)


def test_quick_dataclass_subclass_may_be_instantiated_before_its_parent() -> None:
    @quick.dataclass(slots=True)
    class Parent:
        a: int

    @quick.dataclass(slots=True)
    class Child(Parent):
        b: int = 2

    class Plain(Child):
        pass

    assert (Plain(1).b, Child(1, 3).b, Parent(4).a, Plain(a=5).a) == (2, 3, 4, 5)


def test_quick_dataclass_first_instances_in_concurrent_threads_are_correct() -> None:
    for _ in range(20):

        @quick.dataclass(frozen=True, slots=True)
        class Pair:
            """Two."""

            KINDS: ClassVar[int] = 2
            first: int
            second: list[int] = field(default_factory=list, kw_only=True)

        begin = threading.Barrier(4)

        def make(number: int, begin: threading.Barrier = begin, kind: type[Pair] = Pair) -> Pair:
            begin.wait()
            return kind(number)

        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(make, range(4)))
        assert made == [Pair(number, second=[]) for number in range(4)]
        assert Pair.KINDS == 2


def test_quick_dataclass_keeps_a_wrapper_around_its_constructor() -> None:
    @quick.dataclass
    class Counted:
        """Its objects are counted."""

        number: int

    init, calls = Counted.__init__, []

    def counting(self: Counted, number: int) -> None:
        calls.append(number)
        init(self, number)

    Counted.__init__ = counting  # type: ignore[method-assign]
    assert [Counted(number).number for number in (1, 2)] == calls == [1, 2]
