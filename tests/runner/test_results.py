"""Results of tasks: the best task, and the differences between runs."""

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

import fairway_hpc
from fairway_cli.commands import arguments
from fairway_core.findings import UserError
from fairway_runner.runs import view
from fairway_runner.runs.records import STEPS_FILE, StepRecord, steps_text
from fairway_runner.runs.report.data import compare
from fairway_runner.runs.results import best, metric_name
from fairway_runner.runs.store import Run, RunStore

METRICS = {"loss": "loss=([0-9.]+)"}


def task(loss: str, state: str = "succeeded", **facts: Any) -> dict[str, Any]:
    return {"log": f"loss=9\nloss={loss}\n", "state": state, "params": {"lr": loss}, **facts}


def test_best_compares_the_last_values_of_succeeded_tasks(make_run: MakeRun) -> None:
    tasks = [task("0.5"), task("0.1", "failed"), task("0.2"), task("0.2"), task("0", "cancelled")]
    run = make_run("job-a", [*tasks, task("7"), {"log": ""}], metrics=METRICS, state="failed")
    lowest = best(run, None, lowest=True)
    assert (lowest.task.index, lowest.metric, lowest.value) == (2, "loss", 0.2)
    assert (lowest.task.params, lowest.task.metrics) == ({"lr": "0.2"}, {"loss": 0.2})
    assert best(run, "loss", lowest=False).task.index == 5
    none = make_run("none-a")
    two = make_run("two-a", metrics={"loss": "l=(1)", "accuracy": "a=(1)"})
    for run, metric, says in (
        (none, None, "has no metrics"),
        (none, "loss", "has no metrics"),
        (two, None, "has 2 metrics"),
        (two, "los", "no metric `los`"),
    ):
        with pytest.raises(UserError, match=says):
            metric_name(run.record.metrics, metric, run.id)
    refused(lambda: best(two, "loss", lowest=True), "has printed `loss`")


@pytest.mark.parametrize(
    ("end", "pattern"),
    [
        *((end, "loss=([0-9.]+)") for end in ("nan", "-NaN.", "inf", "1e999")),
        ("nan", r"loss=(?P<it>\S+)"),
    ],
)
def test_best_leaves_out_tasks_that_diverged(
    here: RunFairway, make_run: MakeRun, end: str, pattern: str
) -> None:
    tasks = [task(f"0.1\nloss={end}"), task("0.5")]
    make_run("job-a", tasks, metrics={"loss": pattern})
    code, printed, said = here("best", "job-a")
    assert (code, printed) == (0, "task 1 of job-a: loss 0.5\n  lr: 0.5\n")
    assert said == "not counted: the last `loss` of task 0 is not finite\n"
    facts = json.loads(here("best", "job-a", "--json")[1])
    assert (facts["task"], facts["diverged"]) == (1, [0])
    make_run("job-b", tasks[:1], metrics={"loss": pattern})
    ends(here("best", "job-b"), 2, "job-b has no best task: the last `loss` of task 0 is not")
    # No other command shows a last value of the metric.
    assert "loss" not in json.loads(here("show", "job-b", "--json")[1])["task_list"][0]["metrics"]
    listed = json.loads(
        here("list", "--sort", "metric:loss", "--columns", "metric:loss", "--json")[1]
    )
    assert [each["columns"]["metric:loss"] for each in listed] == [None, [0.5, 0.5]]
    diverged, _ = json.loads(here("compare", "job-a", "--json")[1])
    assert diverged["metrics"] == {"loss": {"last": None, "lowest": 0.1, "highest": 9.0}}
    # The metric is finite again, long before the end of the log.
    make_run("job-c", [task(f"{end}\nloss=0.2\n" + "more\n" * 100_000)], metrics={"loss": pattern})
    assert here("best", "job-c")[1].startswith("task 0 of job-c: loss 0.2\n")


def test_best_command_knows_the_better_direction_or_asks_for_it(
    here: RunFairway, make_run: MakeRun
) -> None:
    make_run("job-a", [task("3"), task("2")], metrics=METRICS)
    ends(here("best", "job-a", "--min"), 0, printed="task 1 of job-a: loss 2\n  lr: 2\n")
    facts = json.loads(here("best", "job-a", "-m", "loss", "--max", "--json")[1])
    assert (facts["task"], facts["value"], facts["params"]) == (0, 3.0, {"lr": "3"})
    # A lower loss is better.
    ends(here("best", "job-a", "--metric", "loss"), 0, printed="task 1 of job-a: loss 2\n  lr: 2\n")
    tasks = [{"params": {"lr": each}, "log": f"norm={each}\n"} for each in "32"]
    run = make_run("job-b", tasks, metrics={"norm": "norm=([0-9.]+)"})
    unknown = "it is not known whether lower or higher `norm` is better"
    ends(here("best", "job-b"), 2, unknown, "add --min or --max")
    said = {"norm": {"pattern": "norm=([0-9.]+)", "better": "lower"}}
    (run.folder / "job.json").write_text(json.dumps({"metrics": said}))
    assert here("best", "job-b")[:2] == (0, "task 1 of job-b: norm 2\n  lr: 2\n")


def test_show_limits_tasks_and_prints_how_many_are_left_out(
    here: RunFairway, make_run: MakeRun
) -> None:
    tasks = [task(str(n), "failed" if n % 10 == 0 else "succeeded", exit_code=3) for n in range(60)]
    run = make_run("job-a", tasks, metrics=METRICS, state="failed")
    _, out, _ = here("show", "job-a")
    assert out.startswith("job-a  failed  on local  1m00s\n")
    assert "54 succeeded, 6 failed" in out or "6 failed, 54 succeeded" in out
    assert "… and 10 more; all of them: --limit 0" in out
    lines = here("show", "job-a", "--failed")[1].splitlines()
    assert [line.split()[0] for line in lines[-6:]] == ["0", "10", "20", "30", "40", "50"]
    assert lines[-7].split() == ["TASK", "lr", "STATE", "EXIT", "TIME", "loss"]
    assert lines[-1].split() == ["50", "50", "failed", "3", "5.0s", "50"]
    facts = json.loads(here("show", "job-a", "--json", "--failed")[1])
    assert [each["metrics"]["loss"] for each in facts["task_list"]] == [*range(0, 60, 10)]
    assert facts["folder"] == str(run.folder)


def test_lost_run_counts_unfinished_tasks_as_lost(here: RunFairway, make_run: MakeRun) -> None:
    tasks = [{}, *({"state": each, "attempt": None} for each in ("running", "queued", "queued"))]
    make_run("sweep-a", tasks, state="running")  # its lock is free
    for words in (("show", "sweep-a"), ("list",)):
        facts = json.loads(here(*words, "--json")[1])
        facts = facts if words[0] == "show" else facts[0]
        assert (facts["state"], facts["task_states"]) == ("lost", {"succeeded": 1, "lost": 3})
    assert "tasks   1 succeeded, 3 lost\n" in here("show", "sweep-a")[1]


def test_show_prints_no_control_characters_and_no_negative_times(
    here: RunFairway, make_run: MakeRun
) -> None:
    make_run("job-a", [{"params": {"x": "\x1b[31m"}}, {"params": {"x": "two\nlines"}}])
    _, out, _ = here("show", "job-a")
    assert "\x1b" not in out
    assert '"two\\nlines"' in out
    run = make_run("job-b")
    for file in (run.folder / "state.json", run.task_folder(0) / "state.json"):
        state = json.loads(file.read_text())
        file.write_text(json.dumps({**state, "ended": state["started"] - 0.3}))
    code, out, _ = here("show", "job-b", "--json")
    facts = json.loads(out)
    assert (code, facts["seconds"], facts["task_list"][0]["seconds"]) == (0, 0.0, 0.0)
    for words in (("show", "job-b"), ("list",)):
        out = here(*words)[1]
        assert "0.0s" in out
        assert "-0.3" not in out


def test_completion_offers_names_and_raises_no_error(
    make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("noise-0", "digits-1", "digits-3", "dev-a", "dev-b"):
        run = make_run(name)
    (run.folder / "job.json").write_text('{"template": "dev"}')
    monkeypatch.chdir(many := store.base.parent)
    (many / ".fairway/runs/digits.txt").touch()
    (many / ".fairway/runs/digits-\udcff").mkdir()
    assert sorted(arguments.complete_runs("dig")) == ["digits-1", "digits-3"]
    assert arguments.complete_sessions("") == ["dev-b"]
    assert "openmpi" in arguments.complete_templates("open")
    assert arguments.complete_targets("lo") == ["local"]
    (many / ".fairway/runs/digits-1/run.json").write_text("{")
    assert arguments.complete_columns("name,st") == ["name,state", "name,started"]
    (many / "fairway.yaml").write_text("[broken")
    assert arguments.complete_targets("") == ["local"]
    assert arguments.complete_metrics(object(), "") == []
    (many / "fairway.yaml").unlink()  # otherwise the folder below would belong to the project
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert arguments.complete_runs("") == []
    empty.rmdir()
    assert arguments.complete_runs("") == arguments.complete_templates("") == []
    assert arguments.complete_targets("l") == ["local"]


def _make(make_run: MakeRun, name: str, losses: str, lr: float, **job: Any) -> Run:
    log = "".join(f"loss={loss}\n" for loss in losses.split())
    task = {"log": log, "params": {"lr": lr, "epochs": 3}}
    run = make_run(name, [task], metrics=METRICS)
    (run.folder / "job.json").write_text(json.dumps({"name": "job", "command": name, **job}))
    git = {"commit": f"{name[-1] * 40}", "dirty": name == "job-b"}
    (run.folder / "provenance.json").write_text(json.dumps({"git": git}))
    return run


def test_compare_shows_differing_settings_and_metrics(make_run: MakeRun) -> None:
    env = {"NCCL_DEBUG": "INFO", "SAME": "1"}
    runs = [
        _make(make_run, "job-a", "0.9 0.2 0.5", 0.1, env=env, template="torchrun"),
        _make(make_run, "job-b", "0.7 0.1", 0.2, env={"SAME": "1"}, template="torchrun"),
    ]
    first, second = compare([*runs, runs[0]])
    assert first["differs"] == {"lr": 0.1, "env.NCCL_DEBUG": "INFO"}
    assert second["differs"] == {"lr": 0.2}
    assert first["params"] == {"lr": 0.1, "epochs": 3}
    assert first["metrics"] == {"loss": {"last": 0.5, "lowest": 0.2, "highest": 0.9}}
    assert (first["run_id"], first["task"], first["state"]) == ("job-a", 0, "succeeded")
    assert (first["commit"], first["dirty"]) == ("a" * 40, False)
    assert second["dirty"]
    runs = [
        make_run(f"job-{n}", [{"params": {"nodes": n}, "nodes": 2 * n}], metrics={}) for n in (1, 2)
    ]
    assert [each["differs"] for each in compare(runs)] == [
        {"params.nodes": 1, "nodes": 2},
        {"params.nodes": 2, "nodes": 4},
    ]


def test_compare_prints_tables_csv_or_json_of_known_runs_and_returns_records(
    here: RunFairway, make_run: MakeRun, store: RunStore
) -> None:
    run = _make(make_run, "job-a", "0.9 0.2 0.5", 0.1)
    _make(make_run, "job-b", "0.7", 0.2)
    _, out, _ = here("compare", "job-a", "job-b")
    head, first, second = out.splitlines()
    assert " ".join(head.split()) == "RUN lr STATE TIME loss lowest loss highest loss COMMIT"
    assert " ".join(first.split()) == "job-a 0.1 succeeded 5.0s 0.5 0.2 0.9 aaaaaaaaaa"
    assert second.split()[-1] == "bbbbbbbbbb+"
    _, out, _ = here("compare", "job-a", "job-b", "--csv")
    one, other = csv.DictReader(io.StringIO(out))
    told = [one[name] for name in ("run_id", "lr", "loss", "lowest loss")]
    assert told == ["job-a", "0.1", "0.5", "0.2"]
    assert (one["dirty"], other["dirty"], other["commit"]) == ("false", "true", "b" * 40)
    _, out, _ = here("compare", "job-a", "job-b", "--json")
    assert [each["differs"] for each in json.loads(out)] == [{"lr": 0.1}, {"lr": 0.2}]
    with contextlib.chdir(store.base.parent):
        records = fairway_hpc.compare([run, "job-b"])
    assert [each["metrics"]["loss"]["last"] for each in records] == [0.5, 0.7]
    make_run("sweep-a", [task("1"), task("2")], metrics=METRICS)
    lines = [line.split()[:2] for line in here("compare", "sweep-a")[1].splitlines()]
    assert lines == [["RUN", "lr"], ["sweep-a/0", "1"], ["sweep-a/1", "2"]]
    ends(here("compare", "job-a", "job-x"), 2, "there is no run `job-x`")
    ends(here("compare", "job-a", "--csv", "--json"), 2, "--csv and --json")


def test_compare_replaces_a_run_with_steps_by_its_started_steps(make_run: MakeRun) -> None:
    whole = make_run("pipe-a", [{}, {}, {}], metrics={})
    known = [StepRecord(name, f"pipe-a-{name}", "local", {}) for name in ("one", "two", "three")]
    (whole.folder / STEPS_FILE).write_text(steps_text(known))
    for number, name in enumerate(("one", "two")):
        step = _make(make_run, f"pipe-a-{name}", "0.5", number)
        origin = {"step": {"of": "pipe-a", "name": name}}
        (step.folder / "provenance.json").write_text(json.dumps(origin))
    make_run("pipe-a-three")  # named like a step, but not a step of the run
    found = [(each["run_id"], each["differs"].get("lr")) for each in compare([whole])]
    assert found == [("pipe-a-one", 0), ("pipe-a-two", 1)]


def test_seconds_are_known_of_running_and_ended_but_not_of_lost_or_queued_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.time", lambda: 15.0)
    assert view.seconds("succeeded", 10.0, 12.5) == 2.5
    assert view.seconds("running", 10.0, None) == 5.0
    assert view.seconds("lost", 10.0, None) is None
    assert view.seconds("queued", None, None) is None
