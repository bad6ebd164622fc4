"""A task's folders on its node's local disk."""

import os
import subprocess
from pathlib import Path

import pytest

from fairway_agent import processes, scratch
from fairway_agent.machine import Host
from fairway_agent.resources import Share
from fairway_agent.spec import Staged


def test_input_folder_is_set_by_the_job_or_shared_by_inputs_of_the_same_blobs(
    tmp_path: Path,
) -> None:
    data, again, other = (
        scratch.input_folder(tmp_path, Staged(name, "inputs", path, "shared"))
        for name, path in (("data", "words/"), ("again", "words/"), ("data", "images/"))
    )
    assert data == again != other
    assert data.parent == tmp_path / "inputs"
    there = Staged("data", "inputs", "words/", "shared", to="/data/words")
    assert str(scratch.input_folder(tmp_path, there)) == "/data/words"


def start(lease: str, **variables: str) -> subprocess.Popen[bytes]:
    """Starts a process of a task with this lease."""
    process = subprocess.Popen(
        ["sh", "-c", "echo; read _"],
        env={**os.environ, scratch.LEASE: lease, **variables},
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    # Popen returns in the middle of exec, when /proc may not show the environment yet.
    assert process.stdout.readline()
    return process


def test_scratch_prepare_ends_only_leftovers_on_the_tasks_own_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared node other tasks continue; a task with the entire node ends all leftovers."""
    # Other tests of this machine may have tasks on it.
    inside = processes.environments
    mine = lambda: [each for each in inside() if str(tmp_path) in "".join(each[1])]  # noqa: E731
    monkeypatch.setattr(processes, "environments", mine)
    monkeypatch.setattr(scratch, "_GRACE", 0.0)

    def lease(task: str, *cores: int) -> str:
        share = Share((), cores, 0.5, (0, 0)) if cores else None
        host = Host(os.uname().nodename, "localhost", share=share)
        return scratch.lease(tmp_path / "runs" / "sweep-a", task, 0, [host])

    def prepare(task: str, *cores: int, **more: str) -> list[str]:
        own = str(folder / f"sweep-a-{task}")
        scratch.prepare({scratch.LEASE: lease(task, *cores), "FAIRWAY_SCRATCH_DIR": own, **more})
        return sorted(each.name for each in folder.iterdir())

    other = start(lease("1", 2, 3), FAIRWAY_TASK="1", FAIRWAY_RUN="sweep-a")
    left = start(lease("2", 1, 9), FAIRWAY_TASK="2", FAIRWAY_RUN="sweep-a")
    wide = start(lease("4"))
    own, far = start(lease("0", 0, 1)), start(f"{lease('2', 1, 9)}-too")  # of another node
    folder = tmp_path / "tasks"
    for name in ("sweep-a-1", "sweep-a-2", "sweep-z-0"):
        (folder / name).mkdir(parents=True)
    try:
        assert prepare("0", 0, 1, FAIRWAY_CORES="0-1") == ["sweep-a-0", "sweep-a-1"]
        assert left.wait(300) < 0
        assert wide.wait(300) < 0
        assert (own.poll(), other.poll()) == (None, None)
        assert prepare("3") == ["sweep-a-3"]
        assert other.wait(300) < 0
        assert far.poll() is None
    finally:
        for process in (other, left, wide, own, far):
            process.kill()
            process.communicate()
