"""Podman without root's rights: how it is called, its store, and what is left in it."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from fairway_agent import container, podman, scratch
from fairway_agent.job_facts import Container
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "contoso.example/train:1"
# Notes each call; has an image once it has pulled it, and lists the tasks' containers that the file
# `names` holds beside one of the user's own.
PODMAN = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$*" in
    *"image exists"*) exec test -e {folder}/image ;;
    *pull*) sleep 0.2; echo sha256:abc; {pull} ;;
    *ps*--filter=label=fairway.run*) cat {folder}/names ;;
    *ps*) cat {folder}/names; echo fairway-database ;;
esac
"""


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's local disk, and in the environment what `own_store` sets there."""
    monkeypatch.setattr(scratch, "root", lambda: tmp_path / "disk")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/30001")
    return tmp_path / "disk"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A recording Podman."""
    return _program(tmp_path, f"touch {tmp_path}/image")


def _program(folder: Path, pull: str) -> Path:
    (folder / "names").touch()
    (folder / "calls").touch()
    file = folder / "podman"
    file.write_text(PODMAN.format(folder=folder, pull=pull))
    file.chmod(0o755)
    return file


def test_in_a_container_root_is_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 30001)
    monkeypatch.setenv("FAIRWAY_RUN", "job-abc")
    monkeypatch.setenv("FAIRWAY_SCRATCH_DIR", "/mnt/resource_nvme/fairway-30001/job")
    runtime = container.Runtime("podman", "/usr/bin/podman", ("--root=/x",))
    words = container.words_of(
        runtime, Container(IMAGE, ("--env=A=1",)), ["true"], seen=["/data"], names=["KEY"], name="n"
    )
    assert words[:4] == ["/usr/bin/podman", "--root=/x", "run", "--rm"]
    assert set(podman.RUN_OPTIONS) <= set(words)
    assert [word for word in words if word.startswith("--user")] == ["--user=0:0"]
    assert "--env=HOME=/mnt/resource_nvme/fairway-30001/job" in words
    assert "--ulimit=memlock=-1" not in words, "above the person's own it would be refused"
    assert words[-3:] == ["--env=A=1", IMAGE, "true"]


def test_the_store_is_on_the_local_disk_and_of_no_login_session(disk: Path) -> None:
    options = podman.own_store()
    assert options[:3] == (
        f"--root={disk}/podman/store",
        f"--runroot={disk}/podman/run",
        f"--tmpdir={disk}/podman/run/tmp",
    )
    assert os.environ["XDG_RUNTIME_DIR"] == f"{disk}/podman/run"
    assert (disk / "podman/run").stat().st_mode & 0o777 == 0o700


def test_after_a_restart_of_the_machine_nothing_counts_as_running(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman.own_store()
    state = disk / "podman/run/alive"
    state.touch()
    podman.own_store()
    assert state.exists()
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(podman, "_BOOT", tmp_path / "boot_id")
    podman.own_store()
    assert not state.exists()


def test_a_store_that_somebody_else_has_made_is_not_used(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: disk.stat().st_uid + 1)
    with pytest.raises(Fault, match="belongs to another user") as refused:
        podman.own_store()
    assert refused.value.record["exit_code"] == 4


def test_tasks_that_want_an_image_at_a_time_pull_it_once(program: Path) -> None:
    words, environment = [str(program), "--root=/x"], {"PATH": os.environ["PATH"]}
    tasks = [
        threading.Thread(target=podman.fetch, args=(words, IMAGE, environment)) for _ in range(3)
    ]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    calls = (program.parent / "calls").read_text().splitlines()
    assert calls.count(f"--root=/x pull --quiet {IMAGE}") == 1
    assert calls.count(f"--root=/x image exists {IMAGE}") == 3


def test_an_image_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    program = _program(tmp_path, "exit 125")
    with pytest.raises(Fault, match=f"Podman cannot pull {IMAGE}") as refused:
        podman.fetch([str(program)], IMAGE, dict(os.environ))
    assert refused.value.record["exit_code"] == 125
    assert "podman login --authfile" in str(refused.value.record["hint"])


def test_containers_of_killed_tasks_are_removed_and_no_others(program: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f"fairway-job-0-0-{ended.pid}", f"fairway-job-1-0-{os.getpid()}"]
    (program.parent / "names").write_text("\n".join(names))
    podman.fetch([str(program)], IMAGE, dict(os.environ))
    calls = (program.parent / "calls").read_text().splitlines()
    assert [call for call in calls if call.startswith("rm")] == [f"rm --force {names[0]}"]
