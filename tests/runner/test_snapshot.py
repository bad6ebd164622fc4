"""Snapshots of code."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from endings import refused

from fairway_runner.jobs.project_files import restricted_to
from fairway_runner.submit import snapshot


def test_snapshot_of_equal_code_by_two_threads_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.txt").write_text("a")
    both, copy = Barrier(2), snapshot.copy_file

    def copied(*paths: Any) -> Any:
        both.wait(300)
        return copy(*paths)

    monkeypatch.setattr(snapshot, "copy_file", copied)
    code = snapshot.collect(tmp_path / "code")
    with ThreadPoolExecutor(2) as pool:
        takes = [pool.submit(snapshot.snapshot, code, tmp_path / "store") for _ in range(2)]
        first, second = (each.result() for each in takes)
    assert first == second
    assert [each.name for each in first.iterdir()] == ["a.txt"]
    assert list((tmp_path / "store").iterdir()) == [first]


def test_snapshot_takes_as_many_files_and_bytes_as_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("a.txt", "data/b.txt", "data/c.txt"):
        (tmp_path / name).write_text("abc")
    (tmp_path / "a.txt").chmod(0o601)  # executable for others only
    monkeypatch.setattr(snapshot, "MOST_FILES", 3)
    monkeypatch.setattr(snapshot, "MOST_BYTES", 9)
    assert [each.executable for each in snapshot.collect(tmp_path).files] == [False] * 3
    for most in ("MOST_FILES", "MOST_BYTES"):
        with monkeypatch.context() as less:
            less.setattr(snapshot, most, getattr(snapshot, most) - 1)
            finding = refused(lambda: snapshot.collect(tmp_path))
        assert finding.id == "bad-code"
        assert '  code: {path: src, exclude: ["data"]}\n' in finding.hint


def test_snapshot_follows_linked_folders_and_keeps_empty_ones(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "empty" / "deep").mkdir(parents=True)
    (code / "cached" / "__pycache__").mkdir(parents=True)
    (code / "a.py").write_text("a")
    (tmp_path / "shared" / "more").mkdir(parents=True)
    (tmp_path / "shared" / "more" / "util.py").write_text("util")
    (code / "mylib").symlink_to("../shared")
    (code / "again").symlink_to("mylib/more")
    (code / "b.py").symlink_to("a.py")
    taken = snapshot.collect(code)
    assert [each.path for each in taken.files] == [
        *("a.py", "again/util.py", "b.py", "cached/", "empty/deep/", "mylib/more/util.py")
    ]
    assert not taken.warnings
    copy = snapshot.snapshot(taken, tmp_path / "store")
    assert not [each for each in copy.rglob("*") if each.is_symlink()]
    assert (copy / "mylib/more/util.py").read_text() == "util"
    assert (copy / "empty/deep").is_dir()
    assert snapshot.collect(copy).digest == taken.digest
    (code / "empty" / "deep").rmdir()
    assert snapshot.collect(code).digest != taken.digest


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("a", ["deep/b/x"]),
        ("a/", ["deep/a", "deep/b/x"]),
        ("./a", ["deep/a", "deep/b/x"]),
        ("/a/", ["deep/a", "deep/b/x"]),
        ("**/a", ["deep/b/x"]),
        ("**/deep/b", ["a/x", "deep/a"]),
        ("./x", ["a/x", "deep/a", "deep/b/x"]),
        ("deep/*", ["a/x"]),
    ],
)
def test_snapshot_leaves_out_excluded_files_and_folders(
    tmp_path: Path, pattern: str, kept: list[str]
) -> None:
    for name in ("a/x", "deep/a", "deep/b/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = snapshot.collect(tmp_path, [pattern]).files
    assert [each.path for each in files if not each.is_folder] == kept


@pytest.mark.parametrize(
    ("link", "target"), [("deep/loop", ".."), ("up", ".."), ("self", "self"), ("deep/root", "/")]
)
def test_snapshot_refuses_a_cyclic_link_by_its_path(tmp_path: Path, link: str, target: str) -> None:
    code = tmp_path / "code"
    (code / "deep").mkdir(parents=True)
    (code / link).symlink_to(target)
    finding = refused(lambda: snapshot.collect(code))
    assert finding.id == "bad-code"
    assert str(code / link) in finding.message
    assert finding.hint == f'leave it out: code: {{exclude: ["{link}"]}}'
    assert not snapshot.collect(code, [link]).warnings


def test_snapshot_warns_of_entries_that_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to("nothing")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "below").symlink_to(tmp_path / "pipe" / "x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        code = snapshot.collect(tmp_path)
        assert not snapshot.collect(tmp_path, ["pipe", "gone", "null", "below", "s"]).warnings
    assert not code.files
    (finding,) = code.warnings
    assert (finding.id, finding.severity) == ("left-out", "warning")
    kinds = ("below (a link to nothing)", "gone (a link to nothing)", "null (a device)")
    assert finding.message == f"the code leaves out {', '.join(kinds)} and 2 more"


def test_snapshot_of_a_confined_job_follows_links_within_the_project_only(tmp_path: Path) -> None:
    project, code = tmp_path / "project", tmp_path / "project" / "code"
    for folder in (code, project / "lib", project / ".git", tmp_path / "outside"):
        folder.mkdir(parents=True)
        (folder / "x.py").touch()
    (code / "lib").symlink_to("../lib")
    (code / "gone").symlink_to("/nowhere")
    with restricted_to(project):
        assert [each.path for each in snapshot.collect(code).files] == ["lib/x.py", "x.py"]
    for target in ("../../outside", "../../outside/x.py", "../.git", "../.git/x.py"):
        (code / "link").symlink_to(target)
        with restricted_to(project):
            finding = refused(lambda: snapshot.collect(code))
        assert finding.id == "missing-role"
        assert "the link link" in finding.message
        assert str(tmp_path) not in finding.message
        assert snapshot.collect(code).files
        (code / "link").unlink()
