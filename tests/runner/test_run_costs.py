"""Use and cost of runs, compared with figures computed by hand."""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

import fairway_hpc
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task import task as agent_task
from fairway_core.cost.prices import read_prices
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.runs import query, usage
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.usage import usage_of

SIZE = "Standard_ND96isr_H100_v5"
PRICES = f"""[[prices]]
region = "southcentralus"
currency = "USD"
source = "a test"
date = 2026-11-21
[prices.hourly]
"vm/{SIZE}" = 90.0
"spot/{SIZE}" = 30.0
"""
ENVIRONMENT = """name: lab
location: southcentralus
clusters:
  nd: {engine: batch, size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 16}}
"""
OTHER_CURRENCY = (
    "the budget of 1,000.00 EUR a month is in another currency: name prices in it with "
    "--prices FILE"
)


pytestmark = pytest.mark.usefixtures("no_kept_prices")


@pytest.fixture
def folder(make_run: MakeRun, store: RunStore) -> Path:
    """A project with runs of known duration, and a file of prices."""
    project = store.base.parent
    (project / "prices.toml").write_text(PRICES)
    # 2 nodes × 1,800 s of ended attempts: 1 node hour.
    _make(make_run, "one-a", [{"nodes": 2, "held": 1800.0}], tags=["vision", "best"])
    # Two tasks of 1 node and 7,200 s on Spot: 4 node hours.
    sweep = [{"started": 1e9, "ended": 1e9 + 7200}] * 2
    _make(make_run, "sweep-b", sweep, spot=True, user="ann", tags=["vision"], created=1.1e9)
    # 1 hour on this machine, free of charge.
    here = _make(make_run, "here-c", [{"held": 3600.0}], created=1.2e9)
    (here.folder / "target.json").unlink()
    return project


def _make(
    make_run: MakeRun, name: str, tasks: list[dict[str, Any]], *, spot: bool = False, **facts: Any
) -> Run:
    user = facts.pop("user", "eve")
    run = make_run(name, [{"nodes": task.get("nodes", 1)} for task in tasks], **facts)
    target = {"name": "nd", "vm_size": SIZE, "spot": spot, "environment": "lab"}
    (run.folder / "target.json").write_text(json.dumps(target))
    (run.folder / "provenance.json").write_text(json.dumps({"user": user}))
    for index, task in enumerate(tasks):
        path = run.task_folder(index) / "state.json"
        times = {
            name: task[name]
            for name in ("started", "ended", "held", "node_fraction")
            if name in task
        }
        path.write_text(json.dumps({**json.loads(path.read_text()), **times}))
    return run


def _costs(fairway: RunFairway, folder: Path, *words: str) -> dict[str, Any]:
    options = ("--prices", "prices.toml", "--json")
    code, out, err = fairway(folder, "cost", "--runs", *options, *words)
    assert code == 0, err
    facts: dict[str, Any] = json.loads(out)
    return facts


def test_run_costs_list_each_run_and_the_total(
    fairway: RunFairway, folder: Path, make_run: MakeRun
) -> None:
    facts = _costs(fairway, folder, "--region", "southcentralus")
    assert [(each["key"], each["node_hours"], each["cost"]) for each in facts["groups"]] == [
        ("one-a", 1.0, 90.0),
        ("sweep-b", 4.0, 120.0),
        ("here-c", 1.0, 0.0),
    ]
    total = {"runs": 3, "node_hours": 6.0, "cost": 210.0, "unpriced": 0, "sizes": [SIZE]}
    assert facts["total"] == total
    assert (facts["by"], facts["currency"]) == ("run", "USD")
    # Eight tasks with one GPU for an hour are a node hour; an invalid part counts as a full node.
    tasks: list[dict[str, Any]] = [{"held": 3600.0, "node_fraction": 0.125}] * 8
    _make(make_run, "packed-d", tasks, created=1.3e9)
    _make(make_run, "wrong-e", [{"held": 3600.0, "node_fraction": 99.0}], created=1.4e9)
    groups = _costs(fairway, folder, "--region", "southcentralus")["groups"]
    found = [(each["key"], each["node_hours"], each["cost"]) for each in groups]
    assert found[-2:] == [("packed-d", 1.0, 90.0), ("wrong-e", 1.0, 90.0)]


@pytest.mark.parametrize(
    ("by", "costs"),
    [
        ("name", {"one": 90.0, "sweep": 120.0, "here": 0.0}),
        ("tag", {"vision": 210.0, "best": 90.0, "": 0.0}),
        ("user", {"eve": 90.0, "ann": 120.0}),
        ("target", {"local": 210.0}),
        ("month", {"2001-09": 90.0, "2004-11": 120.0, "2008-01": 0.0}),
    ],
)
def test_run_costs_are_grouped_by_name_tag_user_target_or_month(
    fairway: RunFairway, folder: Path, by: str, costs: dict[str, float]
) -> None:
    facts = _costs(fairway, folder, "--region", "southcentralus", "--by", by)
    assert {each["key"]: each["cost"] for each in facts["groups"]} == costs
    assert facts["total"]["cost"] == 210.0


def test_run_costs_use_the_region_of_the_environment(fairway: RunFairway, folder: Path) -> None:
    facts = _costs(fairway, folder)
    assert (facts["total"]["cost"], facts["total"]["unpriced"]) == (0.0, 2)
    (folder / "lab.yaml").write_text(ENVIRONMENT)
    facts = _costs(fairway, folder, "lab.yaml", "--region", "southcentralus")
    assert [each["key"] for each in facts["groups"]] == ["one-a", "sweep-b"]
    (folder / "cdktf.json").write_text("{}")
    (folder / "environments").mkdir()
    (folder / "lab.yaml").rename(folder / "environments" / "lab.yaml")
    assert _costs(fairway, folder)["total"]["unpriced"] == 0


def test_run_costs_prefer_the_region_and_price_of_the_target(
    fairway: RunFairway, folder: Path
) -> None:
    _rewrite_target(folder, "one-a", region="southcentralus")
    facts = _costs(fairway, folder)
    assert [each["cost"] for each in facts["groups"]] == [90.0, None, 0.0]
    assert _costs(fairway, folder, "--region", "westeurope")["total"]["unpriced"] == 2
    # 1 node hour at 12.50, and 4 node hours at 2.00 of a target without a size.
    _rewrite_target(folder, "one-a", region="southcentralus", price=12.5)
    _rewrite_target(folder, "sweep-b", vm_size="", price=2)
    facts = _costs(fairway, folder)
    assert [each["cost"] for each in facts["groups"]] == [12.5, 8.0, 0.0]
    _, out, _ = fairway(folder, "cost", "--runs", "--offline")
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["12.50", "8.00", "1.00", "20.50"]
    _, out, _ = fairway(folder, "show", "sweep-b")
    assert "cost    8.00 USD: 4 node hours (Spot) at 2.00 an hour\n" in out


def _rewrite_target(folder: Path, run: str, **facts: Any) -> None:
    [path] = folder.rglob(f"{run}/target.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


@pytest.mark.parametrize(
    ("budget", "share", "line"),
    [
        # Only the first run is of September 2001, and cost 90.
        (
            "{monthly: 1000}",
            0.09,
            "runs of 2001-09: 90.00 USD, 9.0% of the budget of 1,000.00 USD a month",
        ),
        ("{monthly: 1000, currency: EUR}", None, OTHER_CURRENCY),
    ],
)
def test_run_costs_show_the_share_of_the_monthly_budget(
    fairway: RunFairway,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: str,
    share: float | None,
    line: str,
) -> None:
    monkeypatch.setattr(usage, "time", SimpleNamespace(time=lambda: 1e9 + 86400))
    emails = ENVIRONMENT.replace("name: lab", f"name: lab\nbudget: {budget}")
    (folder / "lab.yaml").write_text(f"{emails}monitoring: {{emails: [a@example.com]}}\n")
    facts = _costs(fairway, folder, "lab.yaml", "--region", "southcentralus")
    assert (facts["budget"]["spent"], facts["budget"]["share"]) == (90.0, share)
    words = ("cost", "lab.yaml", "--runs", "--prices", "prices.toml")
    code, out, _ = fairway(folder, *words, "--region", "southcentralus")
    assert code == 0
    assert out.splitlines()[-1] == line
    # The cost of a part of the month is not compared with the monthly budget.
    assert "budget" not in _costs(fairway, folder, "lab.yaml", "--since", "2001-09-02")
    assert "budget" not in _costs(fairway, folder)


def test_run_costs_are_printed_in_tables_csv_and_show(
    here: RunFairway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("cost", "--runs", "--prices", "prices.toml", "--region", "southcentralus")
    code, out, _ = here(*words, "--by", "name")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["NAME", "RUNS", "NODE", "HOURS", "SIZE", "USD"]
    assert lines[1] == ["here", "1", "1.00"]
    assert lines[3] == ["sweep", "1", "4.00", SIZE, "120.00"]
    assert lines[4] == ["all", "3", "6.00", SIZE, "210.00"]
    _, out, _ = here("cost", "--runs", "--prices", "prices.toml")
    assert "the price of 2 of 3 runs is not known" in out
    _, out, _ = here(*words, "--csv", "--since", "2004-01-01")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["run"], row["cost"], row["currency"]) for row in rows] == [
        ("sweep-b", "120.0", "USD"),
        ("here-c", "0.0", "USD"),
    ]
    prices = read_prices(folder / "prices.toml")
    monkeypatch.setattr("fairway_core.cost.cache.cached_prices", lambda: prices)
    (folder / "cdktf.json").write_text("{}")
    (folder / "environments").mkdir()
    (folder / "environments" / "lab.yaml").write_text(ENVIRONMENT)
    _, out, _ = here("show", "one-a")
    says = f"cost    90.00 USD: 1 node hour of {SIZE} at 90.00 an hour in southcentralus\n"
    assert says in out
    facts = json.loads(here("show", "one-a", "--json")[1])
    assert (facts["cost"]["cost"], facts["cost"]["region"]) == (90.0, "southcentralus")
    _, out, _ = here("show", "here-c")
    assert "cost " not in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--runs", "--by", "nmae"], "did you mean `name`?"),
        (["--runs", "--csv", "--json"], "--csv and --json"),
        (["--runs", "--since", "then", "--offline"], "neither a duration nor a date"),
    ],
)
def test_run_costs_refuse_conflicting_or_wrong_options(
    here: RunFairway, folder: Path, words: list[str], says: str
) -> None:
    ends(here("cost", *words), 2, says)


def test_run_costs_of_a_running_run_include_its_ended_attempts(
    make_run: MakeRun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """900 s of an ended attempt and 2,700 s of the running one, on 4 nodes."""
    run = _make(make_run, "more-d", [{"nodes": 4, "started": 1e9, "held": 900.0}], state="running")
    state = run.task_folder(0) / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "state": "running"}))
    (run.folder / "run.json").write_text(
        json.dumps({**json.loads((run.folder / "run.json").read_text()), "engine": "ssh"})
    )
    prices = read_prices(folder / "prices.toml")
    monkeypatch.setattr(usage, "time", SimpleNamespace(time=lambda: 1e9 + 2700))
    use = usage_of(Run(run.folder), run.tasks, lambda: prices, "southcentralus")
    assert (use.node_hours, use.cost) == (4.0, 360.0)


def test_task_held_time_sums_all_its_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, spec = RunPlan("job-a", str(tmp_path)), TaskSpec(0)
    task = agent_task.Task(plan, spec, tmp_path, tmp_path / "0")
    clock = SimpleNamespace(time=lambda: now, monotonic=lambda: now)
    monkeypatch.setattr(agent_task, "time", clock)
    monkeypatch.setattr(agent_task.processes, "end_all", lambda *_: set())
    for began, ended in ((100.0, 130.0), (200.0, 212.5)):
        process = SimpleNamespace(pid=1, poll=lambda: 0)
        task.process, task.began, now = process, began, ended  # type: ignore[assignment]
        assert task.ended() == 0
    task.record(task.status("succeeded"))
    later = agent_task.Task(plan, spec, tmp_path, tmp_path / "0")
    later.resume_count()
    assert (task.held, later.held) == (42.5, 42.5)


def test_run_costs_from_python_are_grouped_and_refuse_wrong_arguments(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make_run: MakeRun
) -> None:
    monkeypatch.chdir(folder)
    found = fairway_hpc.costs(by="user", region="southcentralus", prices="prices.toml")
    assert [(each["key"], each["cost"], each["currency"]) for each in found] == [
        ("eve", 90.0, "USD"),
        ("ann", 120.0, "USD"),
    ]
    refused(lambda: fairway_hpc.costs(by="nmae"), "runs cannot be grouped by `nmae`")
    with pytest.raises(UserError, match="since: `soon` is neither a duration nor a date"):
        fairway_hpc.costs(folder, since="soon")
    with pytest.raises(UserError, match="no environment is called `nowhere`"):
        fairway_hpc.costs(folder, environment="nowhere")
    (make_run("broken-z").folder / "run.json").write_text("{")
    refused(lambda: fairway_hpc.costs(folder), "broken-z")


def test_run_costs_leave_out_a_run_that_is_removed_meanwhile(
    here: RunFairway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select = query.select

    def then_remove(store: RunStore, *words: Any, **options: Any) -> query.Listing:
        found = select(store, *words, **options)
        (store.folder / "one-a").rename(folder / "gone")
        return found

    monkeypatch.setattr(query, "select", then_remove)
    code, out, err = here("cost", "--runs", "--json", "--prices", "prices.toml")
    assert (code, err) == (0, "")
    assert [each["key"] for each in json.loads(out)["groups"]] == ["sweep-b", "here-c"]


class Cluster:
    """The engine of a target with a run that another machine submitted."""

    def __init__(self, make_run: MakeRun) -> None:
        self.make_run = make_run
        self.asked = 0

    def adopt(self, store: RunStore) -> list[Finding]:
        """Adds the other machine's run, as `fairway list --target` does."""
        self.asked += 1
        if not (store.folder / "away-x").exists():
            _make(self.make_run, "away-x", [{"held": 3600.0}], user="eve", created=1.3e9)
        return [Finding("damaged-run", "one cannot be read", severity=Severity.WARNING)]


SLURM = {"host": "192.0.2.1", "user": "me", "partition": "nd", "shared": "/data/fairway"}
CLUSTER = {"name": "nd", "engine": "slurm", "nodes": {"min": 0, "max": 4}, "slurm": SLURM}
CLUSTER |= {"vm_size": SIZE, "environment": "lab", "region": "southcentralus"}


@pytest.fixture
def cluster(folder: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(make_run)
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [CLUSTER]}))
    monkeypatch.setattr(query, "engine_for", lambda _: made)
    return made


def test_run_costs_include_runs_submitted_from_other_machines(
    fairway: RunFairway, folder: Path, cluster: Cluster
) -> None:
    (folder / "lab.yaml").write_text(ENVIRONMENT)
    (folder / "other.yaml").write_text(ENVIRONMENT.replace("name: lab", "name: elsewhere"))
    assert _costs(fairway, folder, "other.yaml")["total"]["runs"] == 0
    assert cluster.asked == 0
    groups = _costs(fairway, folder, "lab.yaml")["groups"]
    assert "away-x" in {each["key"] for each in groups}
    facts = _costs(fairway, folder, "--by", "user", "--region", "southcentralus")
    costs = {each["key"]: (each["node_hours"], each["cost"]) for each in facts["groups"]}
    # The run from another machine is one node hour of the three.
    assert costs == {"eve": (3.0, 180.0), "ann": (4.0, 120.0)}
    late = _costs(fairway, folder, "--since", "2011-01-01T00:00:00+00:00")["groups"]
    assert [each["key"] for each in late] == ["away-x"]


def test_run_costs_warn_of_a_target_that_does_not_answer(
    here: RunFairway, folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def refresh_all(runs: Iterable[Run]) -> list[Finding]:
        seen.extend(run.id for run in runs)
        return [Finding("no-connection", "`cpu` is away", severity=Severity.WARNING)]

    with monkeypatch.context() as patch:
        patch.setattr(query, "refresh_all", refresh_all)
        _, out, err = here("cost", "--runs", "--prices", "prices.toml")
    assert sorted(seen) == ["away-x", "here-c", "one-a", "sweep-b"]
    assert "away-x" in out
    assert "`cpu` is away" in err
    assert "one cannot be read" in err

    def away(_: object) -> Cluster:
        raise TargetUnavailable.of("no-connection", "`nd` does not answer", exit_code=5)

    monkeypatch.setattr(query, "engine_for", away)
    code, out, err = here("cost", "--runs", "--prices", "prices.toml")
    assert (code, "one-a" in out, "`nd` does not answer" in err) == (0, True, True)
