"""`files:`: which files a pattern matches, and where it does not lead."""

import os
from pathlib import Path

import pytest
from endings import refused

from fairway_core.documents import FieldError
from fairway_runner.jobs.project_files import confined
from fairway_runner.jobs.sweep_sources import file_points, matching_files, matching_names

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
def test_matches(tree: Path, pattern: str, expected: list[str]) -> None:
    assert matching_files(pattern, tree) == expected
    # Those of a list of names are matched alike.
    assert matching_names(pattern, [*TREE, "data/"], "the input `x`") == expected
    # The same from the root of the file system, and then with absolute paths.
    absolute = matching_files(f"{tree}/{pattern}", Path("/nowhere"))
    assert absolute == [f"{tree}/{path}" for path in expected]


@pytest.mark.parametrize(
    "pattern", ["*.nope", "data", "data/", "*", "nothing/*.csv", "a.csv/*", "a.csv/x", "B.CSV"]
)
def test_no_match_is_an_error(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "data").mkdir()
    if pattern != "*":
        (tmp_path / "a.csv").touch()
    with pytest.raises(FieldError, match="matches no file") as caught:
        matching_files(pattern, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.hint


def test_points_of_files_follow_links_but_none_that_leads_back(linked: Path) -> None:
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
def test_a_confined_pattern_leaves_the_project_by_no_link(linked: Path, pattern: str) -> None:
    assert matching_files(pattern, linked)
    with confined(linked):
        assert matching_files("data/**/c.csv", linked) == ["data/c.csv"]
        assert refused(lambda: matching_files(pattern, linked)).id == "missing-role"


def test_pipe_is_no_file_and_name_without_text_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FieldError, match="matches no file"):
        matching_files("*.csv", tmp_path)
    try:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))).touch()
    except OSError:
        pytest.skip("this file system takes Unicode only")
    with pytest.raises(FieldError, match=r"U\+DCFF in its name"):
        matching_files("*.csv", tmp_path)


def test_a_folder_that_cannot_be_read_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "deep":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(FieldError, match=r"data/deep cannot be read: Permission denied"):
        matching_files("**/*.csv", tree)


def test_more_files_than_points_are_refused(
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
