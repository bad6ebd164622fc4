"""Fetching the outputs of a run: complete files, overwriting others only on request."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_core.findings import UserError
from fairway_runner.runs import outputs as fetching
from fairway_runner.runs.output_files import files_of
from fairway_runner.runs.outputs import fetch
from fairway_runner.runs.records import STEPS_FILE, StepRecord, steps_text
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


def test_fetch_copies_outputs_and_logs_of_all_tasks(run: Run, tmp_path: Path) -> None:
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


def test_fetch_of_steps_skips_a_step_that_kept_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    """Such a step was skipped, or still waits."""
    whole = make_run("pipe-a", [{}, {}, {}])
    known = [StepRecord(name, f"pipe-a-{name}", "local", {}) for name in ("one", "two", "three")]
    (whole.folder / STEPS_FILE).write_text(steps_text(known))
    for name, log in (("one", "first\n"), ("two", None), ("three", "last\n")):
        make_run(f"pipe-a-{name}", [{"log": log} if log else {}])
    fetch(whole, tmp_path / "to")
    assert found(tmp_path / "to") == {"one/0/log.txt": b"first\n", "three/0/log.txt": b"last\n"}
    with pytest.raises(UserError, match="the step two of pipe-a has kept nothing yet"):
        fetch(whole, tmp_path / "to", "two")


def test_fetch_reports_missing_outputs(make_run: MakeRun, tmp_path: Path, here: RunFairway) -> None:
    """Missing are outputs empty at the end or removed since, but not those of failed tasks."""
    outputs = {"model": "success", "plots": "always", "core": "failure"}
    tasks = [
        {"log": "a", "outputs": outputs, "empty": ["plots"]},
        {"log": "b", "outputs": outputs, "state": "failed"},
    ]
    run = make_run("job-a", tasks, "failed")
    lacking = [
        {"run_id": "job-a", "task": "0", "output": "model", "was_empty": False},
        {"run_id": "job-a", "task": "0", "output": "plots", "was_empty": True},
    ]
    assert [*fetch(run, tmp_path / "to").lacking] == lacking
    assert fetch(run, tmp_path / "to", 1).lacking == ()
    code, printed, _ = here("fetch", "job-a", "--json")
    assert (code, json.loads(printed)["lacking"]) == (0, lacking)
    code, _, said = here("fetch", "job-a")
    assert (code, said.count("`model`"), said.count("`plots`")) == (0, 1, 1)
    kept = run.task_folder(0) / "outputs"
    for name in ("model", "plots"):
        (kept / name).mkdir(parents=True)
        (kept / name / "a").touch()
    assert fetch(run, tmp_path / "to").lacking == ()


def test_empty_outputs_are_reported_by_wait_and_show(make_run: MakeRun, here: RunFairway) -> None:
    outputs = {"model": "success", "plots": "success"}
    empty = [["model", "plots"], [], ["model"]]
    make_run("job-a", [{"outputs": outputs, "empty": names} for names in empty])
    code, printed, _ = here("wait", "job-a", "--json")
    [waited] = json.loads(printed)
    found = [(each["task"], each["output"]) for each in waited["empty_outputs"]]
    assert (code, found) == (0, [("0", "model"), ("0", "plots"), ("2", "model")])
    ends(here("wait", "job-a"), 0, "`model`, `plots`", printed="job-a succeeded\n")
    shown = json.loads(here("show", "job-a", "--json")[1])["task_list"]
    assert [each["empty_outputs"] for each in shown] == empty
    assert here("show", "job-a")[1].count("`model`") == 2


def test_fetch_of_one_task_writes_its_files_only(run: Run, tmp_path: Path) -> None:
    fetch(run, tmp_path / "to", 1)
    assert {name.split("/")[0] for name in found(tmp_path / "to")} == {"1"}
    for task in (3, -1, "x", "³", "9" * 40, "finally"):
        with pytest.raises(UserError, match=f"has no task {task}"):
            fetch(run, tmp_path / "to", task)


def test_fetch_refuses_to_overwrite_a_file_that_differs_only_in_content(
    run: Run, tmp_path: Path
) -> None:
    (mine := tmp_path / "to/1/log.txt").parent.mkdir(parents=True)
    mine.write_text("two\n")
    os.utime(mine, ns=(run.log(1).stat().st_atime_ns, run.log(1).stat().st_mtime_ns))
    said = r"files already exist in .*/to: 1/log\.txt"
    assert refused(lambda: fetch(run, tmp_path / "to"), said, 3).id == "existing-files"
    assert found(tmp_path / "to") == {"1/log.txt": b"two\n"}
    fetch(run, tmp_path / "to", force=True)
    assert found(tmp_path / "to")["1/log.txt"] == b"one\n"


def test_fetch_follows_links_to_files_only(run: Run, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["", "model"])
def test_fetch_leaves_out_links_to_files_of_this_machine(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A job wrote them, on a machine whose users may not read this one's files."""
    (own := tmp_path / "own" / "model").mkdir(parents=True)
    (own / "secret").write_text("mine")
    deep = run.task_folder(0) / "outputs" / "model" / "deep"
    for link, target in {
        "file": own / "secret",
        "folder": own,
        "up": "../../../state.json",
        "here": ".",
        "winding": "here/here/../../../../..",
        "new": tmp_path / "nothing",
    }.items():
        (deep / link).symlink_to(target)
    os.mkfifo(deep / "pipe")
    other = run.task_folder(1) / "outputs" / name
    shutil.rmtree(other)
    other.symlink_to(own if name else own.parent)
    fetch(run, tmp_path / "to")
    names = {each.relative_to(tmp_path / "to").as_posix() for each in (tmp_path / "to").rglob("*")}
    kept = {"0/model", *(f"0/model/deep{each}" for each in ("", "/here", "/run.sh", "/weights"))}
    assert names == {"0", "1", "0/log.txt", "1/log.txt", *kept}
    assert all(f"0/model/deep/{each}" in caplog.text for each in ("file", "folder", "new"))
    assert [*files_of(other if name else other / "model")] == []


def test_fetch_writes_nothing_through_a_link(run: Run, tmp_path: Path) -> None:
    """An earlier attempt may have kept a link, which was fetched, or the user has made it."""
    outputs, to = run.task_folder(0) / "outputs" / "model", tmp_path / "to"
    (outputs / "latest").symlink_to("deep")
    fetch(run, to)
    (outputs / "latest").unlink()
    (outputs / "latest").mkdir()
    (outputs / "latest" / "weights").write_text("new")
    refused(lambda: fetch(run, to), r": 0/model/latest\n")
    assert fetch(run, to, force=True).files == ("0/model/latest/weights",)
    assert (to / "0/model/deep/weights").read_bytes() == bytes(10)
    assert (to / "0/model/latest/weights").read_text() == "new"
    shutil.rmtree(outputs / "latest")
    (outputs / "latest").symlink_to("deep")
    with pytest.raises(UserError, match="/0/model/latest: cannot be written: Is a directory"):
        fetch(run, to, force=True)  # a folder may hold more than was fetched


def test_fetch_that_fails_leaves_no_partial_file(
    make_run: MakeRun, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(lambda: fetch(make_run("empty-a"), tmp_path / "to"), "no outputs or logs yet")
    (tmp_path / "file").touch()
    refused(lambda: fetch(run, tmp_path / "file" / "to"), "cannot be written")

    def fails(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(fetching, "copy_file", fails)
    refused(lambda: fetch(run, tmp_path / "to"), "No space left")
    assert found(tmp_path / "to") == {}


@pytest.fixture
def mirrored(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A remote run whose mirror is up to date."""
    path = run.folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "engine": "ssh"}))
    monkeypatch.setattr(Run, "engine", SimpleNamespace(collect=lambda *_: None))
    return Run(run.folder)


def test_fetch_of_a_mirrored_run_hard_links_its_outputs(
    mirrored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of 50 GB takes 50 GB of this machine's disk instead of 100."""
    assert len(fetch(mirrored, tmp_path / "to").files) == 6
    weights = "1/model/deep/weights"
    outputs = mirrored.task_folder(1) / "outputs"
    assert (tmp_path / "to" / weights).samefile(outputs / "model/deep/weights")
    assert not (tmp_path / "to/1/log.txt").samefile(mirrored.log(1)), "the mirror's grows"
    assert fetch(mirrored, tmp_path / "to").unchanged == 6

    def refuses(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")  # to another file system, for example

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuses)
    fetch(mirrored, tmp_path / "more")
    assert (tmp_path / "more" / weights).read_bytes() == b"\1" * 10


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_fetch_writes_a_file_with_several_names_once(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest, *, is_elsewhere: bool
) -> None:
    """Many programs name the best checkpoint by a link."""
    if is_elsewhere:
        run = request.getfixturevalue("mirrored")
    model = run.task_folder(0) / "outputs/model"
    (model / "best").symlink_to("deep/weights")
    (model / "last").hardlink_to(model / "deep/weights")
    fetch(run, tmp_path / "to")
    fetched = tmp_path / "to/0/model"
    for name in ("best", "last"):
        assert not (fetched / name).is_symlink()
        assert (fetched / name).samefile(fetched / "deep/weights")
    assert (fetched / "best").samefile(model / "deep/weights") is is_elsewhere
    (fetched / "best").unlink()
    assert fetch(run, tmp_path / "to").files == ("0/model/best",)
    assert (fetched / "best").samefile(fetched / "deep/weights")
