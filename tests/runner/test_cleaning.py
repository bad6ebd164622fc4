"""Removal of runs: only the selected ones, never a running one, and unused code."""

import io
import json
import os
import secrets
import shutil
import subprocess
import time

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway
from waiting import PATIENCE

from fairway_runner.runs.clean import removable, remove
from fairway_runner.runs.store import Run, RunRecord, RunStore


def ids(runs: list[Run]) -> list[str]:
    return [run.id for run in runs]


def test_clean_selects_runs_by_age_state_and_name(make_run: MakeRun, store: RunStore) -> None:
    day = 86400
    old = {"created": time.time() - 40 * day}
    for name, facts in (("old-a", old), ("old-b", old), ("new-a", {"created": time.time() - day})):
        make_run(name, state="succeeded" if name == "old-b" else "failed", **facts)
    assert ids(removable(store)) == ["new-a", "old-a", "old-b"]
    assert ids(removable(store, older_than=30 * day)) == ["old-a", "old-b"]
    assert ids(removable(store, states=["failed"])) == ["new-a", "old-a"]
    assert ids(removable(store, ["new", "old-a"], 30 * day)) == ["old-a"]
    refused(lambda: removable(store, ["none"]), "no run `none`")


def test_clean_removes_code_with_the_last_run_that_uses_it(
    make_run: MakeRun, store: RunStore
) -> None:
    for name, digest in (("one-a", "a" * 64), ("one-b", "a" * 64), ("two-a", "b" * 64)):
        run = make_run(name)
        (run.folder / "provenance.json").write_text(json.dumps({"code": digest}))
        snapshot = store.base / "code" / digest[:16]
        snapshot.mkdir(parents=True, exist_ok=True)
        (snapshot / "train.py").write_text("print()")
    left = lambda: sorted(path.name[0] for path in (store.base / "code").glob("[a-z]*"))  # noqa: E731
    assert remove(store, removable(store, ["one-a"])).snapshots == 0
    assert left() == ["a", "b"]
    removed = remove(store, removable(store, ["one-b"]))
    assert (removed.runs, removed.snapshots) == (("one-b",), 1)
    assert removed.size > 0
    assert left() == ["b"]


@pytest.mark.parametrize("state", ["running", None])
def test_clean_ends_a_program_left_by_a_killed_supervisor(
    make_run: MakeRun, here: RunFairway, state: str | None
) -> None:
    """State None stands for a damaged record. A program with the ID of another run continues.
    The IDs are random because concurrent tests end programs with the IDs of their own runs."""
    own, others = (f"job-{secrets.token_hex(4)}" for _ in range(2))
    run = make_run(own, state=state or "")
    left, other = (
        subprocess.Popen(
            ["sleep", "600"], env={**os.environ, "FAIRWAY_RUN": name}, start_new_session=True
        )
        for name in (own, others)
    )
    try:
        assert here("clean", run.id, "--yes")[0] == 0
        assert left.wait(PATIENCE) < 0
        assert other.poll() is None
    finally:
        for each in (left, other):
            each.kill()
            each.wait()
    assert not run.folder.exists()


@pytest.mark.parametrize("engine", ["local", "ssh"])
@pytest.mark.parametrize(
    "words",
    [
        *("cancel", "cancel --task 0", "show", "logs", "logs -f", "wait", "retry", "rerun"),
        *("fetch", "top", "report", "best", "compare", "clean --yes", "tag new", "note text"),
        "exec -- true",
    ],
)
def test_command_reports_a_run_that_clean_removes_meanwhile_as_missing(
    make_run: MakeRun, here: RunFairway, monkeypatch: pytest.MonkeyPatch, words: str, engine: str
) -> None:
    """The run is removed as soon as the command has found it."""
    make_run("job-a", [{"log": "loss=1\n"}], metrics={"loss": "loss=(.*)"}, engine=engine)
    find = RunStore.find

    def found(self: RunStore, text: str, **options: bool) -> Run:
        run = find(self, text, **options)
        shutil.rmtree(run.folder)
        return run

    monkeypatch.setattr(RunStore, "find", found)
    command, *more = words.split()
    ends(here(command, "job-a", *more), 2, "there is no run `job-a`")


def test_clean_skips_runs_that_another_clean_has_removed(
    make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("job-a")
    make_run("job-b")
    runs = list(store.unsorted())
    shutil.rmtree(store.folder / "job-a")
    monkeypatch.setattr(RunStore, "unsorted", lambda _: iter(runs))
    chosen = removable(store)
    assert ids(chosen) == ["job-b"]
    shutil.rmtree(store.folder / "job-b")
    assert remove(store, chosen).runs == ()


def test_clean_keeps_a_running_run_and_removes_a_damaged_one(
    store: RunStore, make_run: MakeRun
) -> None:
    record = RunRecord("on-a", "on", "local", 1.0, 1, "job.yaml", "0")
    run, lock = store.create(record, {})
    assert ids(removable(store)) == []
    refused(lambda: removable(store, ["on-a"]), "on-a has not ended: queued")
    # The run had ended when it was selected, and has been started again since.
    assert remove(store, [run]).runs == ()
    os.close(lock)
    assert ids(removable(store)) == ["on-a"]  # the run is lost
    assert remove(store, [run]).runs == ("on-a",)
    assert list(store.folder.iterdir()) == []
    run = make_run("job-a")
    (run.folder / "state.json").write_text("{")
    assert ids(removable(store, ["job-a"])) == ["job-a"]
    (run.folder / "lock").unlink()
    assert remove(store, removable(store)).runs == ("job-a",)


def test_clean_removes_old_leftovers_of_killed_commands(make_run: MakeRun, store: RunStore) -> None:
    """Leftovers are drafts of submissions and of adopted runs, and partly removed runs."""
    kept = make_run("job-a")
    names = [".job-b.0a1b2c3d", ".job-c.4711", ".job-d.removed", ".job-e.99887766"]
    for name in names:
        (store.folder / name).mkdir()
        (store.folder / name / "job.json").write_bytes(bytes(1000))
    old = time.time() - 90_000
    for name in names[:3]:
        os.utime(store.folder / name, (old, old))
    aside = store.base / "aside"
    aside.mkdir()
    (store.folder / ".link").symlink_to(aside)  # not made by Fairway
    os.utime(store.folder / ".link", (old, old), follow_symlinks=False)
    assert remove(store, []).size == 3000
    assert sorted(each.name for each in store.folder.iterdir()) == [names[3], ".link", kept.id]
    assert aside.is_dir()


def test_clean_reports_a_run_it_cannot_remove_and_removes_the_others(
    make_run: MakeRun, store: RunStore, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged record does not say whether the run has files elsewhere."""
    (make_run("job-a").folder / "run.json").write_text("{")
    make_run("job-b")
    code, out, err = here("clean", "--yes", "--json")
    assert (code, json.loads(out)["runs"]) == (2, ["job-b"])
    assert "job-a/run.json: damaged" in err
    assert "remove the run's folder" in err
    assert [each.name for each in store.folder.iterdir()] == ["job-a"]
    run = make_run("job-c")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.rename", refuse)
    found = remove(store, [run])
    (finding,) = found.kept
    assert found.runs == ()
    assert finding.message == f"{run.folder} cannot be removed: Permission denied"
    assert finding.hint == f"see who owns it: ls -ld {run.folder}"


def test_clean_asks_first_unless_yes_is_given(
    here: RunFairway, make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run("job-a")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ends(here("clean"), 3, "this would remove 1 run: job-a", "add --yes")
    assert here("clean", "--older-than", "soon", "--yes")[0] == 2
    assert ids(list(store.unsorted())) == ["job-a"]
    _, out, _ = here("clean", "--yes", "--json")
    assert json.loads(out)["runs"] == ["job-a"]
    assert here("clean")[:2] == (0, "removed 0 runs, 0 unused copies of code, 0 B\n")
