"""Which runs `fairway list` shows, with which columns and in which order."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.moments import moment

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import RunStore

METRICS = {"loss": "loss=([0-9.]+)"}


@pytest.fixture
def folder(make_run: MakeRun, store: RunStore) -> Path:
    """A project with three runs: of one task, of a sweep, and without a metric."""
    one = {"log": "loss=9\nloss=0.5\n", "params": {"lr": 0.1, "size": "big"}}
    make_run("one-a", [one], created=1e9, metrics=METRICS, tags=["vision", "best"])
    sweep = [{"log": f"loss=0.{n}\n", "params": {"lr": 0.1 * n, "size": "big"}} for n in (2, 4)]
    make_run("sweep-b", sweep, created=1.1e9, metrics=METRICS, note="A wider\nnet", tags=["vision"])
    make_run("none-c", created=1.2e9, state="failed")
    return store.base.parent


def _ids(fairway: RunFairway, folder: Path, *words: str) -> list[str]:
    code, out, err = fairway(folder, "list", "--json", *words)
    assert code == 0, err
    return [each["run_id"] for each in json.loads(out)]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], ["one-a", "sweep-b", "none-c"]),
        (["--tag", "vision"], ["one-a", "sweep-b"]),
        (["--tag", "vision", "--tag", "best"], ["one-a"]),
        (["--text", "WIDER"], ["sweep-b"]),
        (["--text", "one-A"], ["one-a"]),
        (["--since", "2004-01-01"], ["sweep-b", "none-c"]),
        (["--since", "1h"], []),
        (["--state", "failed", "--tag", "vision"], []),
        (["-n", "1"], ["none-c"]),
        (["--sort", "metric:loss"], ["none-c", "sweep-b", "one-a"]),
        (["--sort", "metric:loss", "--reverse"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "metric:loss", "--reverse", "-n", "1"], ["sweep-b"]),
        (["--sort", "param:lr"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "name"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "tags"], ["none-c", "one-a", "sweep-b"]),
    ],
)
def test_which_runs_and_in_which_order(
    fairway: RunFairway, folder: Path, words: list[str], ids: list[str]
) -> None:
    assert _ids(fairway, folder, *words) == ids


def test_the_text_may_be_in_the_job_file(fairway: RunFairway, folder: Path) -> None:
    (folder / ".fairway" / "runs" / "none-c" / "job.yaml").write_text("command: train --deep\n")
    assert _ids(fairway, folder, "--text", "--DEEP") == ["none-c"]


def test_columns_of_metrics_and_parameters(fairway: RunFairway, folder: Path) -> None:
    words = ("list", "--tag", "vision", "--columns", "metric:loss,param:lr,note,param:size")
    code, out, _ = fairway(folder, *words)
    assert code == 0
    head, one, sweep = (line.split() for line in out.splitlines())
    assert head[-5:] == ["TAGS", "loss", "lr", "NOTE", "size"]
    assert one[-5:] == ["vision", "best", "0.5", "0.1", "big"]
    assert sweep[-10:] == ["vision", "0.2", "…", "0.4", "[0.2,", "0.4]", "A", "wider", "net", "big"]
    runs = json.loads(fairway(folder, *words, "--json")[1])
    assert [run["columns"]["metric:loss"] for run in runs] == [0.5, [0.2, 0.4]]
    more = {"param:lr": 0.1, "note": "", "param:size": "big"}
    assert runs[0]["columns"] == {"metric:loss": 0.5, **more}


def test_a_column_that_no_run_has_is_named(fairway: RunFairway, folder: Path) -> None:
    code, _, err = fairway(folder, "list", "--columns", "metric:los")
    assert code == 0
    assert "none of these runs has `metric:los`" in err


@pytest.mark.parametrize("option", ["--columns", "--sort"])
def test_an_unknown_column_is_refused(fairway: RunFairway, folder: Path, option: str) -> None:
    for text, says in (("tiem", "did you mean `time`?"), ("metrics:a", "metric:NAME")):
        code, _, err = fairway(folder, "list", option, text)
        assert code == 2
        assert f"there is no column `{text}`" in err
        assert says in err


def test_moments() -> None:
    assert moment("--since", "2h", now=10_000.0) == 2_800.0
    assert moment("--since", "2001-09-09T01:46:40+00:00") == 1e9
    for text in ("yesterday", "-2h", "2h 3m", "99999-01-01", ""):
        with pytest.raises(UserError, match=r"--since: `.*` is neither a duration nor a date"):
            moment("--since", text)


def test_those_that_wait_say_what_for(fairway: RunFairway, folder: Path, make_run: MakeRun) -> None:
    """Unless other columns are asked for."""
    run = make_run("late-d", created=1.3e9, state="queued")
    record = run.folder / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "engine": "elsewhere"}))
    state = {"state": "queued", "reason": "3 other jobs come first", "tasks": {"queued": 1}}
    (run.folder / "state.json").write_text(json.dumps(state))
    code, out, _ = fairway(folder, "list", "--state", "queued")
    assert code == 0
    assert out.splitlines()[0].split()[-1] == "REASON"
    assert out.splitlines()[1].endswith("3 other jobs come first")
    assert "REASON" not in fairway(folder, "list")[1]
    assert "REASON" not in fairway(folder, "list", "--state", "queued", "--columns", "time")[1]
    [facts] = json.loads(fairway(folder, "list", "--state", "queued", "--json")[1])
    assert facts["reason"] == "3 other jobs come first"
    assert "columns" not in facts


def test_a_run_that_may_not_be_read_hides_no_other(
    fairway: RunFairway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses it, as root, who runs these tests in CI, is refused nothing."""
    run = folder / ".fairway" / "runs" / "one-a"
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if run in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    code, out, err = fairway(folder, "list", "--json")
    assert code == 0
    assert [each["run_id"] for each in json.loads(out)] == ["sweep-b", "none-c"]
    assert f"{run / 'run.json'}: Permission denied [unreadable-run]" in err
    assert f"see whose it is: ls -ld {run}" in err
    assert fairway(folder, "show", "sweep")[0] == 0


def test_a_target_that_is_misspelt_is_no_empty_list(fairway: RunFairway, folder: Path) -> None:
    code, out, err = fairway(folder, "list", "--target", "lcoal")
    assert (code, out) == (2, "")
    assert "did you mean `local`?" in err


def test_a_target_that_is_gone_has_its_runs_still(
    fairway: RunFairway, folder: Path, make_run: MakeRun
) -> None:
    make_run("gone-d", target="gone", created=1.3e9)
    assert _ids(fairway, folder, "--target", "gone") == ["gone-d"]
