"""Files that a host sends as a tar file are unpacked in the requested folder and nowhere else."""

import io
import os
import subprocess
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from programs import executable

from fairway_core.findings import UserError
from fairway_runner.engines.remote import connection, remote_host
from fairway_runner.engines.remote.connection import (
    Command,
    Connection,
    Ended,
    Here,
    run_program,
)
from fairway_runner.engines.remote.ssh import Program, Ssh


class Host(Connection):
    """A connection that delivers these bytes."""

    name = "lab-main"

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def execute(self, command: Command) -> Ended:
        assert command.into is not None, "files go where they belong as they come"
        for size in (len(self.packed) // 2, len(self.packed)):  # the connection breaks once
            with command.into() as out, os.fdopen(os.dup(out), "wb") as stream:
                stream.write(self.packed[:size])
        return Ended(0, b"", "")


def packed(*members: tuple[str, str]) -> bytes:
    """Returns a tar file with these files, or links for content such as `-> target`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if content.startswith("-> "):
                member.type, member.linkname = tarfile.SYMTYPE, content[3:]
                files.addfile(member)
            else:
                member.size = len(content)
                files.addfile(member, io.BytesIO(content.encode()))
    return b"Welcome\n" + connection._MARK + buffer.getvalue()


@pytest.mark.parametrize("has_guard", [True, False])
def test_unpacking_writes_nothing_outside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_guard: bool
) -> None:
    if not has_guard:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    to = tmp_path / "run"
    files = packed(
        ("outputs/a", "1"),
        ("outputs/sub/b", "2"),
        ("outputs/latest", "-> sub/b"),
        ("outputs/data", "-> /data/set"),
        ("outputs/up", "-> ../../.."),
        ("outputs/up/evil", "x"),
        ("outputs/../../evil", "x"),
        ("../evil", "x"),
        (f"{tmp_path}/evil", "x"),
        ("state.json", "x"),
        ("outputs2/a", "x"),
    )
    Host(files).download("/there", ["outputs"], to, deadline=1.0)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    below = {"a", "sub", "sub/b", "latest", "up", "up/evil"}
    assert found == {"run", "run/outputs", *(f"run/outputs/{name}" for name in below)}
    assert os.readlink(to / "outputs" / "latest") == "sub/b"  # noqa: PTH115


@pytest.mark.parametrize(
    ("kind", "link", "wanted"),
    [
        (tarfile.REGTYPE, "", True),
        (tarfile.FIFOTYPE, "", False),
        (tarfile.CHRTYPE, "", False),
        (tarfile.LNKTYPE, "a/y", True),
        (tarfile.LNKTYPE, "../y", False),
        (tarfile.LNKTYPE, "/etc/passwd", False),
    ],
)
def test_unpacking_takes_files_and_links_that_stay_and_no_device(
    kind: bytes, link: str, *, wanted: bool
) -> None:
    member = tarfile.TarInfo("a/x")
    member.type, member.linkname = kind, link
    assert connection._is_wanted(member, ["a"]) is wanted


def test_unpacking_of_damaged_files_is_refused(tmp_path: Path) -> None:
    for data in (b"no tar", packed(("outputs/a", "1" * 9999))[:60]):
        with pytest.raises(
            UserError, match="lab-main sent files that cannot be unpacked"
        ) as caught:
            Host(data).download("/there", ["outputs"], tmp_path, deadline=1.0)
        assert caught.value.exit_code == 5


def test_unpacking_on_a_full_disk_raises_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(tarfile.TarFile, "makefile", full)
    files = packed(("outputs/a", "1" * 9999))
    with pytest.raises(OSError, match="No space left"):
        Host(files).download("/there", ["outputs"], tmp_path, deadline=1.0)


def test_unpacking_a_changed_file_keeps_a_hard_link_to_the_old_one(tmp_path: Path) -> None:
    """A fetched file may be a hard link to the mirror's file."""
    host = Host(packed(("outputs/a", "first")))
    host.download("/shared/run", ["outputs"], tmp_path / "run", deadline=0.0)
    fetched = tmp_path / "fetched"
    fetched.hardlink_to(tmp_path / "run/outputs/a")
    host.packed = packed(("outputs/a", "second"))
    host.download("/shared/run", ["outputs"], tmp_path / "run", deadline=0.0)
    assert (tmp_path / "run/outputs/a").read_text() == "second"
    assert fetched.read_text() == "first"


def test_download_on_this_machine_keeps_a_hard_link_to_the_old_file(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "outputs").mkdir(parents=True)
    (there / "outputs/a").write_text("first")
    (there / "outputs/latest").symlink_to("a")
    for text in ("first", "second"):
        (there / "outputs/a").write_text(text)
        Here().download(str(there), ["outputs", "none"], here, deadline=0.0)
        if text == "first":
            (tmp_path / "fetched").hardlink_to(here / "outputs/a")
    assert (here / "outputs/latest").read_text() == "second"
    assert (here / "outputs/latest").is_symlink()
    assert (tmp_path / "fetched").read_text() == "first"


def test_upload_on_this_machine_adds_to_an_existing_folder(tmp_path: Path) -> None:
    code, there = tmp_path / "code", tmp_path / "there"
    for folder in (code, there):
        folder.mkdir()
        (folder / f"{folder.name}.py").touch()
    (code / "latest").symlink_to("code.py")
    Here().upload(code, str(there), deadline=0.0)
    assert {path.name for path in there.iterdir()} == {"code.py", "there.py", "latest"}
    assert (there / "latest").is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root could give files to another")
@pytest.mark.parametrize("line", [connection.UNPACK, remote_host.SHIP], ids=["files", "programs"])
def test_unpacking_on_a_host_makes_files_of_its_own_user(line: str, tmp_path: Path) -> None:
    """A file server that squashes root refuses to change owners, and tar then fails."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as files:
        member = tarfile.TarInfo("train.py")
        member.uid = member.gid = 12345
        files.addfile(member)
    words = ["bash", "-c", line, "bash", str(tmp_path / "shared"), "there"]
    subprocess.run(words, input=buffer.getvalue(), check=True, umask=0o077)
    [found] = tmp_path.rglob("train.py")
    if line == remote_host.SHIP:  # which others run too
        modes = [each.stat().st_mode & 0o777 for each in (found, found.parent.parent)]
        assert modes == [0o644, 0o755]
    assert (found.stat().st_uid, found.stat().st_gid) == (os.getuid(), os.getgid())


class NoisyHost(Ssh):
    """This machine, behind an ssh whose login shell prints a greeting."""

    def __init__(self, ssh: Path, *, has_rsync: bool = True) -> None:
        super().__init__("lab-main", "", has_rsync=has_rsync)
        self.ssh = ssh
        executable(
            ssh, '#!/bin/bash\necho Welcome\nwhile [[ $1 == -* ]]; do shift; done\neval "${*:2}"\n'
        )

    def command(self, *options: str) -> list[str]:
        return [str(self.ssh), *options]

    def run_with_retry(self, program: Program, command: Command, *_: object) -> Ended:
        return run_program(program(), command, self.name)


@pytest.mark.parametrize("has_rsync", [True, False])
def test_download_works_with_a_login_shell_that_prints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_rsync: bool
) -> None:
    """rsync fails on such a line, which is logged; a tar file comes after a mark."""
    host = NoisyHost(tmp_path / "ssh", has_rsync=has_rsync)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").write_bytes(b"\0\n1")
    there, back = tmp_path / "there", tmp_path / "back"
    host.upload(tmp_path / "here", str(there), deadline=60.0)
    host.has_rsync = has_rsync
    host.download(str(there), ["a", "b"], back, deadline=60.0)
    assert {each.name: each.read_bytes() for each in back.iterdir()} == {"a": b"\0\n1"}
    assert not host.has_rsync
    assert caplog.text.count("Welcome") == (2 if has_rsync else 0)


@pytest.mark.parametrize("kind", ["rsync", "tar", "here"])
def test_download_replaces_links_and_folders_and_writes_through_none(
    tmp_path: Path, kind: str
) -> None:
    """A retry may keep a folder where the first attempt kept a link, and the other way round."""
    host: Connection = Here()
    if kind != "here":
        host = NoisyHost(tmp_path / "ssh", has_rsync=kind == "rsync")
        (tmp_path / "ssh").write_text((tmp_path / "ssh").read_text().replace("echo Welcome\n", ""))
    there, here, victim = (tmp_path / each for each in ("there/out", "here/out", "victim"))
    for folder in (there / "link", here / "folder", victim):
        folder.mkdir(parents=True)
    (there / "link" / "keys").write_text("theirs")
    (there / "folder").symlink_to("link")
    (there / "file").write_text("theirs")
    os.mkfifo(there / "pipe")
    (here / "folder" / "old").touch()
    (here / "link").symlink_to(victim)
    (here / "file").symlink_to(victim / "file")
    host.download(str(there.parent), ["out"], here.parent, deadline=60.0)
    assert [*victim.iterdir()] == []
    assert (here / "link" / "keys").read_text() == (here / "folder" / "keys").read_text()
    assert (here / "folder").is_symlink()
    assert not (here / "file").is_symlink()


def test_noisy_shell_check_reports_a_login_shell_that_prints(tmp_path: Path) -> None:
    host = NoisyHost(tmp_path / "ssh")
    [finding] = connection.of_shell(host, 60.0)
    assert (finding.id, "Welcome" in finding.message) == ("noisy-shell", True)
    assert connection.of_shell(Here(), 60.0) == []
