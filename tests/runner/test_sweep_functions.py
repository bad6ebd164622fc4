"""`python:`: points from the user's own function, and whatever goes wrong in it."""

import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairway_core.documents import FieldError
from fairway_core.findings import Finding, UserError, format_finding
from fairway_runner.jobs.sweep_sources import function_points


@pytest.fixture(autouse=True)
def python_is_left_as_it_was() -> Iterator[None]:
    path, modules, bytecode = sys.path[:], set(sys.modules), sys.dont_write_bytecode
    yield
    assert sys.path == path
    assert sys.dont_write_bytecode == bytecode
    new = {name for name in set(sys.modules) - modules if name.startswith("my_")}
    assert not new


def write(folder: Path, source: str, name: str = "my_points.py") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(source)


def listed(folder: Path, reference: str = "my_points:f") -> list[dict[str, Any]]:
    return list(function_points(reference, folder))


def fault(folder: Path, source: str) -> Finding:
    write(folder, source)
    with pytest.raises(UserError) as caught:
        listed(folder)
    assert caught.value.exit_code == 2
    (finding,) = caught.value.findings
    assert "Traceback" not in format_finding(finding)
    return finding


def test_points_come_from_generators_and_folders_of_one_module_name(tmp_path: Path) -> None:
    body = "for n in range(3):\n        yield {'b': n / 4, 'a': ['x', True]}\n"
    write(tmp_path, f"def f():\n    {body}")
    found = listed(tmp_path)
    assert found == [{"b": n / 4, "a": ["x", True]} for n in range(3)]
    assert list(found[0]) == ["b", "a"]
    assert not (tmp_path / "__pycache__").exists()
    for name in ("one", "two"):
        write(tmp_path / name, f"def f():\n    yield {{'a': '{name}'}}\n    yield {{}}\n")
    one = function_points("my_points:f", tmp_path / "one")
    assert next(one) == {"a": "one"}
    assert list(one) == [{}]
    assert listed(tmp_path / "two")[0] == {"a": "two"}
    again = [function_points("my_points:f", tmp_path / "one") for _ in range(2)]
    assert [next(each) for each in again] == [{"a": "one"}] * 2


def test_points_are_streamed(tmp_path: Path) -> None:
    write(
        tmp_path,
        "import itertools, pathlib\n"
        "last = pathlib.Path(__file__ + '.last')\n"
        "def f():\n"
        "    try:\n"
        "        for n in itertools.count():\n"
        "            last.write_text(str(n))\n"
        "            yield {'n': n}\n"
        "    finally:\n"
        "        last.write_text('closed')\n",
    )
    found = function_points("my_points:f", tmp_path)
    assert not (tmp_path / "my_points.py.last").exists()
    assert [next(found), next(found)] == [{"n": 0}, {"n": 1}]
    assert (tmp_path / "my_points.py.last").read_text() == "1"
    found.close()
    assert (tmp_path / "my_points.py.last").read_text() == "closed"


def test_modules_of_the_folder_and_of_a_longer_path_may_be_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        "def f():\n    from my_late import B\n    from my_pkg.early import A\n"
        "    yield {'a': A, 'b': B}\n",
    )
    write(tmp_path, "A = 1\n", "my_pkg/early.py")
    write(tmp_path, "B = 2\n", "my_late.py")
    assert listed(tmp_path) == [{"a": 1, "b": 2}]
    write(tmp_path, "from .early import A\ndef f(): return [{'a': A}]\n", "my_pkg/points.py")
    assert listed(tmp_path, "my_pkg.points:f") == [{"a": 1}]
    write(tmp_path, "C = 3\n", "lib/my_lib.py")
    write(
        tmp_path,
        "import sys, pathlib\n"
        "sys.path.append(str(pathlib.Path(__file__).parent / 'lib'))\n"
        "def f():\n"
        "    yield {'a': 1}\n"
        "    import my_lib\n"
        "    yield {'a': my_lib.C}\n",
    )
    assert listed(tmp_path) == [{"a": 1}, {"a": 3}]
    sys.modules.pop("my_lib")  # it lies deeper than the folder: Python keeps it


def test_numbers_of_other_kinds_become_plain(tmp_path: Path) -> None:
    write(
        tmp_path,
        "import enum\nfrom fractions import Fraction\n"
        "class S(str): pass\n"
        "class E(enum.StrEnum):\n    X = 'x'\n"
        "class I(int):\n    def __repr__(self): return 'odd'\n"
        "def f():\n"
        "    yield {'q': Fraction(1, 4), 's': S('t'), 'e': E.X, 'i': I(3), 't': (1, S('u'))}\n",
    )
    (point,) = listed(tmp_path)
    assert point == {"q": 0.25, "s": "t", "e": "x", "i": 3, "t": [1, "u"]}
    assert [type(value) for value in point.values()] == [float, str, str, int, list]
    assert json.dumps(point) == '{"q": 0.25, "s": "t", "e": "x", "i": 3, "t": [1, "u"]}'
    assert Fraction(point["q"]) == Fraction(1, 4)


# A point that is none, and words of the message.
UNFIT = [
    ("3", "expected a mapping, found a value of type int"),
    ("None", "expected a mapping, found None"),
    ("{1: 2}", "1 cannot name a parameter"),
    ("{'a-b': 2}", "'a-b' cannot name a parameter"),
    ("{'a': None}", "`a` is None: expected text, a number"),
    ("{'a': object()}", "`a` is a value of type object"),
    ("{'a': b'x'}", "`a` is a value of type bytes"),
    ("{'a': [[1]]}", "`a` is a value of type list"),
    ("{'a': [1, None]}", "`a` is None"),
    ("{'a': float('nan')}", "`a` is nan, which is not a finite number"),
    ("{'a': [float('-inf')]}", "`a` is -inf"),
    ("{'a': __import__('fractions').Fraction(10**400, 3)}", "not a finite number"),
    ("{'a': 10**400}", "above 2^1024"),
    ("{'a': 'x\\0'}", "U+0000"),
    ("{'a': '\\udc80'}", "U+DC80"),
]


@pytest.mark.parametrize(("value", "message"), UNFIT)
def test_a_value_that_cannot_be_a_point(tmp_path: Path, value: str, message: str) -> None:
    finding = fault(tmp_path, f"def f():\n    yield {{}}\n    yield {value}\n")
    assert message in finding.message
    assert "`my_points:f`: point 2" in finding.message
    assert finding.location.file == str(tmp_path / "my_points.py")
    assert finding.location.line == 3
    assert finding.location.text == f"    yield {value}"


# The module, words of the message, and the line.
FAULTS = [
    ("def f():\n    yield {}\n    yield {'a': 1 / 0}\n", "ZeroDivisionError: division by zero", 3),
    ("def f():\n    g()\n\ndef g():\n    raise KeyError('k')\n", "KeyError: 'k'", 5),
    ("x = 1\nraise RuntimeError('one\\ntwo')\n", "RuntimeError: one two", 2),
    ("import my_nothing\n", "No module named 'my_nothing'", 1),
    ("def f(:\n", "SyntaxError", 1),
    ("def f():\n    import sys\n    sys.exit(3)\n", "SystemExit: 3", 3),
    ("def f():\n    return f()\n", "RecursionError", 2),
    ("def f():\n    eval('1 +')\n", "SyntaxError", 2),
    ("def f():\n    raise StopIteration\n    yield\n", "StopIteration", 2),
    ("class E(Exception):\n    def __str__(self): 1 / 0\n\ndef f(): raise E\n", "E", 4),
    ("def f(): return 5\n", "returns a value of type int", 1),
    ("x = 1\n\ndef f():\n    return [{}, 5]\n", "point 2", 3),
    ("def f(): pass\n", "returns None: expected one mapping after another", 1),
    ("def f(): return 'text'\n", "returns a value of type str", 1),
    ("async def f(): return [{}]\n", "returns a value of type coroutine", 1),
    ("class C:\n    def __iter__(self): raise OSError\n\ndef f(): return C()\n", "OSError", 2),
]


@pytest.mark.parametrize(("source", "message", "line"), FAULTS)
def test_a_fault_of_the_users_code_is_shown_at_its_line(
    tmp_path: Path, source: str, message: str, line: int
) -> None:
    finding = fault(tmp_path, source)
    assert message in finding.message
    assert finding.message.startswith("`my_points:f`: ")
    assert finding.location.file == str(tmp_path / "my_points.py")
    assert finding.location.line == line
    assert finding.location.text == source.split("\n")[line - 1]


def test_points_before_a_fault_are_given_and_other_faults_are_not_the_users(tmp_path: Path) -> None:
    write(tmp_path, "def f():\n    yield {'a': 1}\n    raise ValueError('no')\n")
    found = function_points("my_points:f", tmp_path)
    assert next(found) == {"a": 1}
    with pytest.raises(UserError, match="ValueError: no"):
        next(found)
    finding = fault(
        tmp_path,
        "def f():\n    try:\n        yield 5\n    finally:\n        raise ValueError('closing')\n",
    )
    assert "point 1" in finding.message
    write(tmp_path, "def f():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        listed(tmp_path)


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        ("my_point:f", "there is no module `my_point`", "did you mean `my_points`?"),
        ("nothing_here:f", "there is no module `nothing_here`", "one of: my_points"),
        ("my_points.deeper:f", "there is no module `my_points.deeper`", ""),
        ("my_points:generat", "no function `generat`", "did you mean `generate`?"),
        ("my_points:x", "no function `x`", "generate"),
        ("json:loads", "there is no module `json`", ""),
    ],
)
def test_function_that_is_missing(tmp_path: Path, reference: str, message: str, hint: str) -> None:
    write(tmp_path, "x = 1\ndef generate(): yield {}\n")
    with pytest.raises(FieldError, match=message) as caught:
        listed(tmp_path, reference)
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["json", "fairway_core", "sys"])
def test_a_module_that_python_knows_by_another_name_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, "def f(): yield {}\n", f"{name}.py")
    with pytest.raises(FieldError, match=f"already loaded another module named `{name}`") as caught:
        listed(tmp_path, f"{name}:f")
    assert "rename" in caught.value.hint
    assert name in sys.modules
