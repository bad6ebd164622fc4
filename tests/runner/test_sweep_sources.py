"""Sweep points from other sources: `files:`, with the matches of a pattern and its limits, and
`python:`, a function of the user, with the faults that it may have."""

import json
import os
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from endings import refused

from fairway_core.documents import FieldError
from fairway_core.findings import Finding, format_finding
from fairway_runner.jobs.project_files import restricted_to
from fairway_runner.jobs.sweep_sources import (
    file_points,
    function_points,
    matching_files,
    matching_names,
)

TREE = [
    "a.csv",
    "b.csv",
    "b.txt",
    ".hidden.csv",
    "with space.csv",
    "[x].csv",
    "data/c.csv",
    "data/deep/d.csv",
    "data/deep/deeper/e.csv",
    "data/deep/deeper/ar.tar.gz",
    ".git/f.csv",
    "B.csv",
    "10.csv",
    "9.csv",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        path = tmp_path / "job" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "job"


@pytest.fixture
def linked(tree: Path) -> Path:
    """The tree with links to a folder and a file outside of it."""
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "z.csv").touch()
    (tree / "link").symlink_to(outside)
    (tree / "linked.csv").symlink_to(outside / "z.csv")
    return tree


MATCHES = [
    ("a.csv", ["a.csv"]),
    ("./data//c.csv", ["data/c.csv"]),
    ("?.csv", ["9.csv", "B.csv", "a.csv", "b.csv"]),
    ("[ab].csv", ["a.csv", "b.csv"]),
    ("[!ab].csv", ["9.csv", "B.csv"]),
    ("[[]x].csv", ["[x].csv"]),
    ("*.csv", ["10.csv", "9.csv", "B.csv", "[x].csv", "a.csv", "b.csv", "with space.csv"]),
    (".*.csv", [".hidden.csv"]),
    ("*/*.csv", ["data/c.csv"]),
    ("data/**/*.csv", ["data/c.csv", "data/deep/d.csv", "data/deep/deeper/e.csv"]),
    ("**/[c-e].csv", ["data/c.csv", "data/deep/d.csv", "data/deep/deeper/e.csv"]),
    ("**/deep/**/e.csv", ["data/deep/deeper/e.csv"]),
    ("**/**/e.csv", ["data/deep/deeper/e.csv"]),
    ("data/deep/**", ["data/deep/d.csv", "data/deep/deeper/ar.tar.gz", "data/deep/deeper/e.csv"]),
    (".git/*.csv", [".git/f.csv"]),
]


@pytest.mark.parametrize(("pattern", "expected"), MATCHES)
def test_files_pattern_matches_the_expected_paths(
    tree: Path, pattern: str, expected: list[str]
) -> None:
    assert matching_files(pattern, tree) == expected
    # Names in a list are matched in the same way.
    assert matching_names(pattern, [*TREE, "data/"], "the input `x`") == expected
    # An absolute pattern matches the same files, and returns absolute paths.
    absolute = matching_files(f"{tree}/{pattern}", Path("/nowhere"))
    assert absolute == [f"{tree}/{path}" for path in expected]


@pytest.mark.parametrize(
    "pattern", ["*.nope", "data", "data/", "*", "nothing/*.csv", "a.csv/*", "a.csv/x", "B.CSV"]
)
def test_files_pattern_without_a_match_is_refused(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "data").mkdir()
    if pattern != "*":
        (tmp_path / "a.csv").touch()
    with pytest.raises(FieldError, match="matches no file") as caught:
        matching_files(pattern, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.hint


def test_files_pattern_follows_links_and_refuses_cycles(linked: Path) -> None:
    tree = linked
    found = list(file_points(matching_files("data/deep/deeper/*", tree)))
    assert found == [
        {"file": "data/deep/deeper/ar.tar.gz", "name": "ar.tar.gz", "stem": "ar.tar"},
        {"file": "data/deep/deeper/e.csv", "name": "e.csv", "stem": "e"},
    ]
    (tree / "broken.csv").symlink_to("nothing.csv")
    assert matching_files("**/z.csv", tree / "..") == ["job/link/z.csv", "outside/z.csv"]
    for pattern in ("**/z.csv", "link/*.csv", "l*/z.csv"):
        assert matching_files(pattern, tree) == ["link/z.csv"]
    assert matching_files("linke*.csv", tree) == ["linked.csv"]
    with pytest.raises(FieldError):
        matching_files("broken.csv", tree)
    (tree / "data" / "loop").symlink_to(tree)
    (tree / "self.csv").symlink_to("self.csv")
    assert matching_files("data/deep/**/e.csv", tree) == ["data/deep/deeper/e.csv"]
    with pytest.raises(FieldError, match=r"data/loop cannot be read: it leads back"):
        matching_files("data/**/c.csv", tree)
    with pytest.raises(FieldError, match=r"self.csv cannot be read"):
        matching_files("*.csv", tree)


@pytest.mark.parametrize(
    "pattern", ["link/*.csv", "link/z.csv", "*/z.csv", "**/z.csv", "l*.csv", "../outside/*.csv"]
)
def test_files_pattern_of_a_confined_job_cannot_leave_the_project(
    linked: Path, pattern: str
) -> None:
    assert matching_files(pattern, linked)
    with restricted_to(linked):
        assert matching_files("data/**/c.csv", linked) == ["data/c.csv"]
        assert refused(lambda: matching_files(pattern, linked)).id == "missing-role"


def test_files_pattern_skips_pipes_and_refuses_undecodable_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FieldError, match="matches no file"):
        matching_files("*.csv", tmp_path)
    try:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))).touch()
    except OSError:
        pytest.skip("this file system takes Unicode only")
    with pytest.raises(FieldError, match=r"U\+DCFF in its name"):
        matching_files("*.csv", tmp_path)


def test_files_pattern_reports_an_unreadable_folder(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "deep":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(FieldError, match=r"data/deep cannot be read: Permission denied"):
        matching_files("**/*.csv", tree)


def test_files_pattern_with_more_matches_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_runner.jobs.sweep_sources.MOST_POINTS", 3)
    for number in range(3):
        (tmp_path / f"{number}.csv").touch()
    assert len(matching_files("*.csv", tmp_path)) == 3
    (tmp_path / "3.csv").touch()
    with pytest.raises(FieldError, match="more than 3 files"):
        matching_files("*.csv", tmp_path)
    names = [f"{number}.csv" for number in range(4)]
    assert len(matching_names("*.csv", names[:3], "the input `x`")) == 3
    with pytest.raises(FieldError, match="matches 4 files of the input `x`"):
        matching_names("*.csv", names, "the input `x`")


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
    finding = refused(lambda: listed(folder), code=2)
    assert "Traceback" not in format_finding(finding)
    assert finding.message.startswith("`my_points:f`: ")
    assert finding.location.file == str(folder / "my_points.py")
    assert finding.location.text == source.split("\n")[finding.location.line - 1]
    return finding


def test_function_points_come_from_the_module_in_each_folder(tmp_path: Path) -> None:
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


def test_function_points_are_streamed(tmp_path: Path) -> None:
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


def test_function_points_may_import_from_the_folder_and_an_extended_path(tmp_path: Path) -> None:
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
    sys.modules.pop("my_lib")  # Python keeps it, as it lies below the folder


def test_function_points_have_values_converted_to_plain_types(tmp_path: Path) -> None:
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


# An invalid point, and a part of the message.
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
def test_function_points_with_an_invalid_value_are_refused_at_their_line(
    tmp_path: Path, value: str, message: str
) -> None:
    finding = fault(tmp_path, f"def f():\n    yield {{}}\n    yield {value}\n")
    assert message in finding.message
    assert "`my_points:f`: point 2" in finding.message
    assert finding.location.line == 3


# The module, a part of the message, and the line.
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
def test_function_points_report_a_fault_of_user_code_at_its_line(
    tmp_path: Path, source: str, message: str, line: int
) -> None:
    finding = fault(tmp_path, source)
    assert message in finding.message
    assert finding.location.line == line


def test_function_points_before_a_fault_are_returned_and_ctrl_c_is_passed_on(
    tmp_path: Path,
) -> None:
    write(tmp_path, "def f():\n    yield {'a': 1}\n    raise ValueError('no')\n")
    found = function_points("my_points:f", tmp_path)
    assert next(found) == {"a": 1}
    refused(lambda: next(found), "ValueError: no")
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
def test_function_points_of_a_missing_function_are_refused_with_a_hint(
    tmp_path: Path, reference: str, message: str, hint: str
) -> None:
    write(tmp_path, "x = 1\ndef generate(): yield {}\n")
    with pytest.raises(FieldError, match=message) as caught:
        listed(tmp_path, reference)
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["json", "fairway_core", "sys"])
def test_function_points_refuse_a_module_named_like_a_loaded_one(tmp_path: Path, name: str) -> None:
    write(tmp_path, "def f(): yield {}\n", f"{name}.py")
    with pytest.raises(FieldError, match=f"already loaded another module named `{name}`") as caught:
        listed(tmp_path, f"{name}:f")
    assert "rename" in caught.value.hint
    assert name in sys.modules
