"""Tasks and their results: which is the best, and how fast very many of them are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from endings import ends, finished

from fairway_core.findings import UserError
from fairway_runner.runs.results import best, metric_name

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import RunStore

METRICS = {"loss": "loss=([0-9.]+)"}


def task(loss: str, state: str = "succeeded", **facts: Any) -> dict[str, Any]:
    return {"log": f"loss=9\nloss={loss}\n", "state": state, "params": {"lr": loss}, **facts}


def test_the_last_value_of_tasks_that_count(make_run: MakeRun) -> None:
    tasks = [task("0.5"), task("0.1", "failed"), task("0.2"), task("0.2"), task("0", "cancelled")]
    run = make_run("job-a", [*tasks, task("7"), {"log": ""}], metrics=METRICS, state="failed")
    lowest, name, value = best(run, None, lowest=True)
    assert (lowest.index, name, value, lowest.params) == (2, "loss", 0.2, {"lr": "0.2"})
    assert best(run, "loss", lowest=False)[0].index == 5
    assert lowest.metrics == {"loss": 0.2}


def test_metrics_that_cannot_be_named(make_run: MakeRun) -> None:
    none = make_run("none-a")
    two = make_run("two-a", metrics={"loss": "l=(1)", "accuracy": "a=(1)"})
    for run, metric, says in (
        (none, None, "has no metrics"),
        (none, "loss", "has no metrics"),
        (two, None, "has 2 metrics"),
        (two, "los", "no metric `los`"),
    ):
        with pytest.raises(UserError, match=says):
            metric_name(run, metric)
    with pytest.raises(UserError, match="has printed `loss`"):
        best(two, "loss", lowest=True)


def test_best_on_the_command_line(here: RunFairway, make_run: MakeRun) -> None:
    make_run("job-a", [task("3"), task("2")], metrics=METRICS)
    ends(here("best", "job-a", "--min"), 0, printed="task 1 of job-a: loss 2\n  lr: 2\n")
    facts = json.loads(here("best", "job-a", "-m", "loss", "--max", "--json")[1])
    assert (facts["task"], facts["value"], facts["params"]) == (0, 3.0, {"lr": "3"})
    # A loss is better where it is lower.
    ends(here("best", "job-a", "--metric", "loss"), 0, printed="task 1 of job-a: loss 2\n  lr: 2\n")


def test_best_without_a_known_direction_asks_for_min_or_max(
    fairway: RunFairway, make_run: MakeRun, store: RunStore
) -> None:
    tasks = [{"params": {"lr": each}, "log": f"norm={each}\n"} for each in "32"]
    run = make_run("job-a", tasks, metrics={"norm": "norm=([0-9.]+)"})
    folder = store.base.parent
    done = fairway(folder, "best", "job-a")
    ends(done, 2, "it is not known whether lower or higher `norm` is better", "add --min or --max")
    said = {"norm": {"pattern": "norm=([0-9.]+)", "better": "lower"}}
    (run.folder / "job.json").write_text(json.dumps({"metrics": said}))
    assert fairway(folder, "best", "job-a")[:2] == (0, "task 1 of job-a: norm 2\n  lr: 2\n")


def test_show_says_how_many_more_there_are(
    fairway: RunFairway, make_run: MakeRun, store: RunStore
) -> None:
    tasks = [task(str(n), "failed" if n % 10 == 0 else "succeeded", exit_code=3) for n in range(60)]
    run = make_run("job-a", tasks, metrics=METRICS, state="failed")
    folder = store.base.parent
    _, out, _ = fairway(folder, "show", "job-a")
    assert "54 succeeded, 6 failed" in out.replace(
        "6 failed, 54 succeeded", "54 succeeded, 6 failed"
    )
    assert "… and 10 more; all of them: --limit 0" in out
    lines = fairway(folder, "show", "job-a", "--failed")[1].splitlines()
    assert [line.split()[0] for line in lines[-6:]] == ["0", "10", "20", "30", "40", "50"]
    assert lines[-7].split() == ["TASK", "lr", "STATE", "EXIT", "TIME", "loss"]
    assert lines[-1].split() == ["50", "50", "failed", "3", "5.0s", "50"]
    facts = json.loads(fairway(folder, "show", "job-a", "--json", "--failed")[1])
    assert [each["metrics"] for each in facts["task_list"]] == [
        {"loss": n} for n in range(0, 60, 10)
    ]
    assert facts["folder"] == str(run.folder)


def test_a_value_cannot_move_the_cursor(here: RunFairway, make_run: MakeRun) -> None:
    make_run("job-a", [{"params": {"x": "\x1b[31m"}}, {"params": {"x": "two\nlines"}}])
    _, out, _ = here("show", "job-a")
    assert "\x1b" not in out
    assert '"two\\nlines"' in out


@pytest.fixture
def many(make_run: MakeRun, store: RunStore) -> Path:
    for number in range(6):
        make_run(
            f"{'digits' if number % 2 else 'noise'}-{number}",
            state="failed" if number > 3 else "succeeded",
            created=1e9 + number,
        )
    return store.base.parent


def test_list_names_what_is_damaged_and_lists_the_rest(fairway: RunFairway, many: Path) -> None:
    ends(fairway(many, "list", "--state", "fialed"), 2, "did you mean `failed`?")
    (many / ".fairway" / "runs" / "noise-0" / "run.json").write_text("{")
    (many / ".fairway" / "runs" / "noise-2" / "state.json").write_text("[]")
    code, out, err = fairway(many, "list", "--json")
    assert code == 0
    assert [run["run_id"][-1] for run in json.loads(out)] == list("1345")
    assert err.count("[damaged-run]") == 2
    assert "fairway clean" in err or "remove the run's folder" in err


def test_shell_completion_offers_runs_templates_and_targets(
    many: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fairway_cli.commands.arguments import (
        complete_columns,
        complete_metrics,
        complete_runs,
        complete_targets,
        complete_templates,
    )

    monkeypatch.chdir(many)
    assert sorted(complete_runs("dig")) == ["digits-1", "digits-3", "digits-5"]
    assert "openmpi" in complete_templates("open")
    assert complete_targets("lo") == ["local"]
    (many / ".fairway/runs/digits-1/run.json").write_text("{")
    assert complete_columns("name,st") == ["name,state", "name,started"]
    (many / "fairway.yaml").write_text("[broken")
    assert complete_targets("") == ["local"]
    assert complete_metrics(object(), "") == []
    (many / "fairway.yaml").unlink()  # or the folder below would be one of its project
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert complete_runs("") == []
    empty.rmdir()
    assert (complete_runs(""), complete_targets("l"), complete_templates("")) == ([], ["local"], [])


def test_completion_reaches_the_shell(many: Path) -> None:
    asked = {"_FAIRWAY_COMPLETE": "complete_bash", "COMP_WORDS": "fairway show dig"}
    program, variables = Path(sys.executable).with_name("fairway"), {**asked, "COMP_CWORD": "2"}
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), str(program)]
    done = finished(command, cwd=many)
    assert sorted(done.stdout.split()) == ["digits-1", "digits-3", "digits-5"], done.stderr


def test_a_clock_that_was_set_back_makes_no_time_negative(
    here: RunFairway, make_run: MakeRun
) -> None:
    run = make_run("job-a")
    for file in (run.folder / "state.json", run.task_folder(0) / "state.json"):
        state = json.loads(file.read_text())
        file.write_text(json.dumps({**state, "ended": state["started"] - 0.3}))
    code, out, _ = here("show", "job-a", "--json")
    facts = json.loads(out)
    assert (code, facts["seconds"], facts["task_list"][0]["seconds"]) == (0, 0.0, 0.0)
    for words in (("show", "job-a"), ("list",)):
        out = here(*words)[1]
        assert "0.0s" in out
        assert "-0.3" not in out
