"""Copies that share their data with the originals, and secret files."""

import fcntl
import os
import shutil
from pathlib import Path
from typing import BinaryIO

import pytest

from fairway_boot.files import copy_file, write_secret


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "run.sh"
    file.write_text("true\n")
    file.chmod(0o750)
    os.utime(file, (1, 2))
    return file


def is_copy(file: Path) -> bool:
    facts = file.stat()
    return (file.read_text(), facts.st_mode & 0o777, facts.st_mtime) == ("true\n", 0o750, 2)


def test_copy_keeps_content_mode_time_and_links_as_requested(script: Path, tmp_path: Path) -> None:
    """On any file system."""
    copy = tmp_path / "copy"
    copy_file(script, copy)
    assert is_copy(copy)
    copy.write_text("false\n")
    assert script.read_text() == "true\n"
    (tmp_path / "link").symlink_to("run.sh")
    copy_file(tmp_path / "link", tmp_path / "followed")
    copy_file(tmp_path / "link", tmp_path / "kept", follow_symlinks=False)
    assert is_copy(tmp_path / "followed")
    assert not (tmp_path / "followed").is_symlink()
    assert os.readlink(tmp_path / "kept") == "run.sh"  # noqa: PTH115


def test_copy_on_a_file_system_with_clones_copies_no_bytes(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def share(new: BinaryIO, request: int, old: int) -> int:
        assert request == 0x40049409
        new.write(os.pread(old, 99, 0))
        return 0

    monkeypatch.setattr(fcntl, "ioctl", share)
    monkeypatch.setattr(shutil, "copyfile", None)
    (tmp_path / "tree").mkdir()
    script.rename(tmp_path / "tree/run.sh")
    shutil.copytree(tmp_path / "tree", tmp_path / "copy", copy_function=copy_file)
    assert is_copy(tmp_path / "copy/run.sh")


def test_copy_of_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(shutil.SpecialFileError):
        copy_file(tmp_path / "pipe", tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        copy_file(tmp_path / "none", tmp_path / "copy")


def test_secret_is_replaced_only_if_it_differs_and_owned_like_its_folder(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "etc", tmp_path / "elsewhere"
    folder.mkdir()
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(folder, *owner)
    elsewhere.write_bytes(b"")
    (folder / ".key.new").symlink_to(elsewhere)  # an interrupted or planted draft is not written to
    key = folder / "key"
    assert write_secret(key, b"old")
    with key.open("rb") as file:
        assert write_secret(key, b"new")
        assert (file.read(), key.read_bytes()) == (b"old", b"new"), "never a part of one"
    written = key.stat()
    assert (written.st_mode & 0o777, written.st_uid, written.st_gid) == (0o400, *owner)
    assert not write_secret(key, b"new")
    assert key.stat().st_ino == written.st_ino
    assert (elsewhere.read_bytes(), os.listdir(folder)) == (b"", ["key"])  # noqa: PTH208
