"""Copying out of a run what it kept: whole files, and never over others unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.runs import fetch as fetching
from fairway_runner.runs.fetch import fetch

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun

    from fairway_runner.runs.store import Run


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    run = make_run("job-a", [{"log": "zero\n"}, {"log": "one\n"}, {}])
    for index in (0, 1):
        model = run.task_folder(index) / "outputs" / "model" / "deep"
        model.mkdir(parents=True)
        (model / "weights").write_bytes(bytes([index]) * 10)
        (model / "run.sh").write_text("true")
        (model / "run.sh").chmod(0o755)
    return run


def found(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_outputs_and_logs_of_all_tasks(run: Run, tmp_path: Path) -> None:
    fetched = fetch(run, tmp_path / "to" / "here")
    assert found(tmp_path / "to" / "here") == {
        "0/log.txt": b"zero\n",
        "0/model/deep/run.sh": b"true",
        "0/model/deep/weights": bytes(10),
        "1/log.txt": b"one\n",
        "1/model/deep/run.sh": b"true",
        "1/model/deep/weights": b"\1" * 10,
    }
    assert (len(fetched.files), fetched.size, fetched.unchanged) == (6, 37, 0)
    assert (tmp_path / "to/here/0/model/deep/run.sh").stat().st_mode & 0o100
    again = fetch(run, tmp_path / "to" / "here")
    assert (again.files, again.unchanged) == ((), 6)


def test_one_task(run: Run, tmp_path: Path) -> None:
    fetch(run, tmp_path / "to", 1)
    assert {name.split("/")[0] for name in found(tmp_path / "to")} == {"1"}
    for task in (3, -1):
        with pytest.raises(UserError, match=f"has no task {task}"):
            fetch(run, tmp_path / "to", task)


def test_a_file_that_differs_stops_everything(run: Run, tmp_path: Path) -> None:
    (tmp_path / "to" / "1").mkdir(parents=True)
    (tmp_path / "to" / "1" / "log.txt").write_text("mine")
    with pytest.raises(UserError, match=r"1/log\.txt") as raised:
        fetch(run, tmp_path / "to")
    assert raised.value.exit_code == 3
    assert found(tmp_path / "to") == {"1/log.txt": b"mine"}
    fetch(run, tmp_path / "to", force=True)
    assert found(tmp_path / "to")["1/log.txt"] == b"one\n"


def test_links(run: Run, tmp_path: Path) -> None:
    outputs = run.task_folder(0) / "outputs" / "model"
    (outputs / "best").symlink_to("deep/weights")
    (outputs / "gone").symlink_to("nowhere")
    (outputs / "all").symlink_to("deep")
    fetch(run, tmp_path / "to")
    fetched = tmp_path / "to" / "0" / "model"
    assert (fetched / "best").read_bytes() == bytes(10)
    assert not (fetched / "best").is_symlink()
    assert [(fetched / name).readlink().name for name in ("gone", "all")] == ["nowhere", "deep"]
    assert fetch(run, tmp_path / "to").files == ()


def test_no_half_file_is_left(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(fetching.shutil, "copy2", fails)
    with pytest.raises(UserError, match="No space left"):
        fetch(run, tmp_path / "to")
    assert found(tmp_path / "to") == {}


def test_nothing_to_fetch_and_nowhere_to_put_it(
    make_run: MakeRun, run: Run, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="no outputs or logs yet"):
        fetch(make_run("empty-a"), tmp_path / "to")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        fetch(run, tmp_path / "file" / "to")
