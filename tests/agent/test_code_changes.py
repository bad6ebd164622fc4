"""Changes of a job's code: they stay in its folder, whatever their paths are."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairway_agent import code_changes


def apply(folder: Path, removed: Any = (), files: Any = None, cut: int = 0) -> dict[str, Any]:
    """Applies changes, of which the last `cut` bytes do not arrive."""
    files = files or {}
    listed = [
        {"path": path, "size": len(content), "executable": path.endswith(".sh")}
        for path, content in files.items()
    ]
    head = json.dumps({"removed": list(removed), "files": listed}).encode()
    data = head + b"\n" + b"".join(files.values())
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return code_changes.apply(root, io.BytesIO(data[: len(data) - cut]))
    finally:
        os.close(root)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The folder of the code, beside one that is not to be touched."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def outside(code: Path) -> dict[str, str]:
    """What lies beside the code."""
    found = (each for each in code.parent.rglob("*") if each.is_file())
    return {
        str(each.relative_to(code.parent)): each.read_text()
        for each in found
        if not each.is_relative_to(code)
    }


def test_files_are_written_replaced_and_removed(code: Path) -> None:
    (code / "pkg" / "deep").mkdir(parents=True)
    (code / "pkg" / "deep" / "old.py").write_text("old")
    (code / "mine.txt").write_text("of a program there")
    name = "-a b'\"$(x) `y` \\ é\n; 😀"
    files = {name: b"first", "new/tool.sh": b"#!/bin/sh\n", "empty": b""}
    said = apply(code, ["pkg/deep/old.py", "never/was", "pkg"], files)
    assert (said["written"], said["removed"]) == (3, 1)
    assert said["refused"] == []
    assert (code / name).read_bytes() == b"first"
    assert (code / "empty").read_bytes() == b""
    assert (code / "new" / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert (code / name).stat().st_mode & 0o777 == 0o644
    assert not (code / "pkg").exists()
    assert (code / "mine.txt").exists()
    apply(code, [], {name: b"second"})
    assert (code / name).read_bytes() == b"second"


def test_a_folder_with_more_in_it_stays(code: Path) -> None:
    (code / "pkg").mkdir()
    for name in ("mine", "old"):
        (code / "pkg" / name).write_text(name)
    assert apply(code, ["pkg/old"])["removed"] == 1
    assert [each.name for each in (code / "pkg").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "path",
    [
        "../outside/kept",
        "../owned",
        "/tmp/owned-by-a-test",
        "a/../../outside/kept",
        "./a",
        "a//b",
        "a/",
        "",
        "..",
        "a\0b",
        7,
        None,
    ],
)
def test_what_leaves_the_folder_is_refused(code: Path, path: Any) -> None:
    before = outside(code)
    assert apply(code, [path])["refused"] == [(path, "it leaves the code's folder")]
    if isinstance(path, str):
        said = apply(code, [], {path: b"bad", "good": b"good"})
        assert said["refused"] == [(path, "it leaves the code's folder")]
        assert (code / "good").read_bytes() == b"good"
    assert outside(code) == before
    assert not Path("/tmp/owned-by-a-test").exists()


def test_links_are_not_followed(code: Path) -> None:
    """Those that the job's own programs have made."""
    before = outside(code)
    (code / "way").symlink_to(code.parent / "outside")
    (code / "file").symlink_to(code.parent / "outside" / "kept")
    why = "there is a file or a link where its folder would be"
    said = apply(code, ["way/kept"], {"way/new": b"bad", "way/deep/new": b"bad", "file": b"mine"})
    assert said["refused"] == [("way/kept", why), ("way/new", why), ("way/deep/new", why)]
    assert (code / "file").read_bytes() == b"mine"
    assert not (code / "file").is_symlink()
    assert apply(code, ["way"])["removed"] == 1
    assert outside(code) == before


def test_a_folder_in_the_way_stays(code: Path) -> None:
    (code / "name" / "below").mkdir(parents=True)
    said = apply(code, ["name"], {"name": b"x", "other": b"y"})
    assert ("name", "there is a folder of that name") in said["refused"]
    assert sorted(each.name for each in code.iterdir()) == ["name", "other"]


def test_what_is_cut_off_changes_nothing_of_its_file(code: Path) -> None:
    (code / "name").write_text("whole")
    with pytest.raises(EOFError):
        apply(code, [], {"name": b"another"}, cut=3)
    assert (code / "name").read_text() == "whole"
    assert [each.name for each in code.iterdir()] == ["name"]
