"""`fairway list`: selection, columns and order of the runs."""

import errno
import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import ends
from running import MakeRun, RunFairway

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import Engine
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.quantities import parse_moment
from fairway_runner.runs.store import Run, RunStore

METRICS = {"loss": "loss=([0-9.]+)"}


@pytest.fixture
def folder(make_run: MakeRun, store: RunStore) -> Path:
    """A project with three runs: of one task, of a sweep, and without metrics."""
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
        (["--state", "failed"], ["none-c"]),
        (["--state", "failed", "--state", "succeeded"], ["one-a", "sweep-b", "none-c"]),
        (["--name", "sweep"], ["sweep-b"]),
        (["--limit", "1", "--state", "succeeded"], ["sweep-b"]),
        (["-n", "1"], ["none-c"]),
        (["--sort", "metric:loss"], ["none-c", "sweep-b", "one-a"]),
        (["--sort", "metric:loss", "--reverse"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "metric:loss", "--reverse", "-n", "1"], ["sweep-b"]),
        (["--sort", "param:lr"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "name"], ["none-c", "one-a", "sweep-b"]),
        (["--sort", "tags"], ["none-c", "one-a", "sweep-b"]),
    ],
)
def test_list_filters_and_orders_runs(
    fairway: RunFairway, folder: Path, words: list[str], ids: list[str]
) -> None:
    assert _ids(fairway, folder, *words) == ids
    assert len(fairway(folder, "list", *words)[1].splitlines()) == len(ids) + 1


def test_list_filters_by_job_text_and_removed_target_and_hints_at_typos(
    fairway: RunFairway, folder: Path, make_run: MakeRun
) -> None:
    (folder / ".fairway" / "runs" / "none-c" / "job.yaml").write_text("command: train --deep\n")
    assert _ids(fairway, folder, "--text", "--DEEP") == ["none-c"]
    ends(fairway(folder, "list", "--target", "lcoal"), 2, "did you mean `local`?", printed="")
    make_run("gone-d", target="gone", created=1.3e9)
    assert _ids(fairway, folder, "--target", "gone") == ["gone-d"]


def test_list_of_queued_runs_shows_reasons(
    fairway: RunFairway, folder: Path, make_run: MakeRun
) -> None:
    """The reasons are left out if other columns are requested."""
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


def test_list_columns_read_a_log_that_grows_or_goes_once(
    here: RunFairway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def once(log: Path, _: object) -> dict[str, float]:
        if log in seen:
            return {}  # its last value is `nan` now
        seen.append(log)
        if "sweep-b" in log.parts:
            raise FileNotFoundError(log)
        return {"loss": 0.5}

    monkeypatch.setattr("fairway_runner.runs.results.last_values", once)
    code, out, err = here("list", "--json", "--columns", "metric:loss")
    assert (code, err) == (0, "")
    assert [each["columns"]["metric:loss"] for each in json.loads(out)] == [0.5, None, None]


def test_list_columns_show_metrics_and_parameters(fairway: RunFairway, folder: Path) -> None:
    words = ("list", "--tag", "vision", "--columns", "metric:loss,param:lr,note,param:size")
    code, out, _ = fairway(folder, *words[:-1], f"{words[-1]},tags,id")
    assert code == 0
    head, one, sweep = (line.split() for line in out.splitlines())
    assert head[-5:] == ["TAGS", "loss", "lr", "NOTE", "size"]
    assert one[-5:] == ["vision", "best", "0.5", "0.1", "big"]
    assert sweep[-10:] == ["vision", "0.2", "…", "0.4", "[0.2,", "0.4]", "A", "wider", "net", "big"]
    runs = json.loads(fairway(folder, *words, "--json")[1])
    assert [run["columns"]["metric:loss"] for run in runs] == [0.5, [0.2, 0.4]]
    more = {"param:lr": 0.1, "note": "", "param:size": "big"}
    assert runs[0]["columns"] == {"metric:loss": 0.5, **more}
    done = fairway(folder, "list", "--columns", "metric:los")
    ends(done, 0, "none of these runs has `metric:los`")


@pytest.mark.parametrize("option", ["--columns", "--sort"])
def test_list_refuses_an_unknown_column(fairway: RunFairway, folder: Path, option: str) -> None:
    for text, says in (("tiem", "did you mean `time`?"), ("metrics:a", "metric:NAME")):
        ends(fairway(folder, "list", option, text), 2, f"there is no column `{text}`", says)


def test_moment_is_parsed_from_a_duration_a_date_or_a_time_of_day() -> None:
    assert parse_moment("--since", "2h", now=10_000.0) == 2_800.0
    assert parse_moment("--since", "2001-09-09T01:46:40+00:00") == 1e9
    for text in ("yesterday", "-2h", "2h 3m", "99999-01-01", ""):
        with pytest.raises(UserError, match=r"--since: `.*` is neither a duration nor a date"):
            parse_moment("--since", text)
    noon = datetime(2026, 3, 4, 12, 0, 30).timestamp()  # noqa: DTZ001 - this machine's own
    assert parse_moment("--since", "11:45", noon) == noon - 15 * 60 - 30
    assert parse_moment("--since", "12:00:30", noon) == noon
    assert parse_moment("--since", "12:01", noon) == noon - 24 * 3600 + 30
    assert parse_moment("--since", "0:00", noon) == noon - 12 * 3600 - 30
    for text in ("24:00", "12:60", "12:00:61", "12", "1:2", "12:00 pm"):
        with pytest.raises(UserError, match=f"`{text}` is neither a duration") as raised:
            parse_moment("--since", text, noon)
        assert "or since when, as 14:30" in raised.value.findings[0].hint


def test_list_reports_an_unreadable_run_and_shows_the_others(
    fairway: RunFairway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is simulated, as root, who runs these tests in CI, may read everything."""
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


@dataclass
class Looks:
    """The refreshes of targets: the target, the deadline and the runs of each."""

    seen: list[tuple[str, float, list[str]]] = field(default_factory=list)

    def engine(self, run: Run) -> Any:
        found: Any = Engine(Target.local(), 600.0)

        def refresh(runs: list[Run], *, logs: bool = False) -> None:
            self.seen.append((run.record.target, found.deadline, sorted(each.id for each in runs)))
            raise TargetUnavailable.of("no-connection", f"{run.record.target} is away", exit_code=5)

        found.refresh = refresh
        return found


@pytest.fixture
def looks(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Runs on two unreachable targets, whose refreshes are recorded."""
    for name, target, created, metrics in (
        *(("near-a", "near", 1e9, {}), ("near-b", "near", 1.1e9, METRICS)),
        *(("far-a", "far", 1.2e9, {}), ("far-b", "far", 1.3e9, {})),
    ):
        facts = {"target": target, "created": created, "metrics": metrics, "engine": "ssh"}
        run = make_run(name, [{"state": "running"}], "running", **facts)
        (run.folder / "engine.json").write_text("{}")
    make_run("here-a", created=1.4e9)
    looks = Looks()
    monkeypatch.setattr(Run, "engine", property(looks.engine))
    return looks


NEAR, FAR = ("near", 5.0, ["near-a", "near-b"]), ("far", 5.0, ["far-a", "far-b"])


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ([], [FAR, NEAR]),
        (["--state", "succeeded"], [FAR, NEAR]),
        (["--target", "near"], [NEAR]),
        (["--target", "local"], []),
        (["--name", "far"], [FAR]),
        (["--text", "r-a"], [("far", 5.0, ["far-a"]), ("near", 5.0, ["near-a"])]),
        (["--tag", "none"], []),
        (["--limit", "2"], [("far", 5.0, ["far-b"])]),
        (["--limit", "2", "--sort", "time"], [FAR, NEAR]),
        (["--since", "2011-01-01"], [("far", 5.0, ["far-b"])]),
        (["--deadline", "9s", "--name", "far"], [("far", 9.0, ["far-a", "far-b"])]),
        (["--deadline", "9s", "--name", "here"], []),
    ],
)
def test_list_polls_each_target_of_matching_runs_once(
    here: RunFairway, looks: Looks, words: list[str], seen: list[tuple[str, float, list[str]]]
) -> None:
    code, _, err = here("list", *words)
    assert (code, sorted(looks.seen)) == (0, seen)
    assert err.count("[no-connection]") == len(seen)


def test_list_polls_an_unreachable_target_once_even_if_runs_have_metrics(
    here: RunFairway, looks: Looks
) -> None:
    """Runs with metrics are refreshed separately."""
    here("list", "--columns", "metric:loss", "--target", "near")
    assert [each[0] for each in looks.seen] == ["near"]


def test_list_of_an_unreachable_target_shows_known_runs(
    store: RunStore, fairway: RunFairway, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is asked for runs submitted elsewhere, and not again after that fails."""
    target = {"name": "near", "engine": "ssh", "nodes": {"min": 1, "max": 1}}
    target["ssh"] = {"host": "10.0.0.4", "user": "me", "shared": "/data"}
    folder, asked = store.base.parent, []
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))

    def adopt(_: RunStore) -> None:
        raise TargetUnavailable.of("no-connection", "near is away", exit_code=5)

    def engine_for(found: Target, deadline: float) -> SimpleNamespace:
        asked.append((found.name, deadline))
        return SimpleNamespace(adopt=adopt)

    monkeypatch.setattr("fairway_runner.engines.engine.engine_for", engine_for)
    code, out, err = fairway(folder, "list", "--target", "near", "--json")
    assert (code, [each["run_id"] for each in json.loads(out)]) == (0, ["near-a", "near-b"])
    assert "near is away" in err
    assert (asked, looks.seen) == ([("near", 5.0)], [])
