"""Effects of named scenarios on a pool, evaluated over recorded samples."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, get_args

import pytest

from fairway_core.autoscale import (
    Autoscale,
    PoolShape,
    ScenarioName,
    check_formula,
    scale_formula,
)
from fairway_core.documents import FieldError
from fairway_simulator.batch.scheduling import formula as interpreter

MONDAY = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
OPTIONS = ["requeue", "terminate", "taskcompletion", "retaineddata"]

Evaluate = Callable[..., dict[str, Any]]


def _samples(now: datetime, counts: dict[str, float | list[float]]) -> dict[str, Any]:
    """Returns samples of half an hour: a constant, or a list whose last item is the newest."""
    history: dict[str, list[tuple[datetime, float]]] = {}
    for name, given in counts.items():
        values = given if isinstance(given, list) else [given] * 60
        newest = now - timedelta(seconds=60)
        times = [newest - timedelta(seconds=30) * i for i in range(len(values))][::-1]
        history[f"${name}"] = list(zip(times, values, strict=True))
    return history


@pytest.fixture(params=[False, True], ids=["lazy", "eager"])
def evaluate(request: pytest.FixtureRequest) -> Evaluate:
    """Evaluates a pool's formula once; a failed evaluation changes nothing, as in Batch."""

    def once(
        settings: dict[str, Any],
        *,
        now: datetime = MONDAY,
        nodes: tuple[int, int] = (0, 8),
        spot: bool = True,
        mpi: bool = True,
        task_slots: int = 1,
        current: int = 0,
        dedicated: int = 0,
        sunday: int = 7,
        **counts: float | list[float],
    ) -> dict[str, Any]:
        shape = PoolShape(
            minimum=nodes[0], maximum=nodes[1], spot=spot, mpi=mpi, task_slots=task_slots
        )
        formula = scale_formula(Autoscale.model_validate(settings), shape)
        before = {"spot": current if spot else 0, "dedicated": dedicated if spot else current}
        pool = interpreter.Pool(
            now=now,
            history=_samples(now, {"PreemptedNodeCount": 0, **counts}),
            weekday_of_sunday=sunday,
            eager=request.param,
            **before,
        )
        try:
            return dict(pool.evaluate(formula))
        except interpreter.FormulaError:
            return before

    return once


@pytest.mark.parametrize(
    ("scenario", "option"),
    [*product(get_args(ScenarioName), OPTIONS[:1]), *product(["pending_tasks"], OPTIONS[1:])],
)
def test_autoscale_scenario_renders_a_formula_that_batch_accepts(
    scenario: str, option: str
) -> None:
    mpi = scenario != "workday_with_offpeak_max_spot"
    settings = {"scenario": scenario, "deallocation": option, "maximum_increment": 3}
    shape = PoolShape(minimum=1, maximum=7, spot=True, mpi=mpi)
    formula = scale_formula(Autoscale.model_validate(settings), shape)
    check_formula(formula, spot=True, mpi=mpi)
    history = _samples(MONDAY, {"ActiveTasks": 2, "RunningTasks": 0})
    pool = interpreter.Pool(now=MONDAY, history=history)
    assert pool.evaluate(formula)["option"] == option
    assert scale_formula(Autoscale(formula=formula), shape) == formula


@pytest.mark.parametrize("scenario", ["active_tasks", "pending_tasks"])
@pytest.mark.parametrize("mpi", [True, False])
@pytest.mark.parametrize("spot", [True, False])
def test_autoscale_grows_with_tasks_and_shrinks_without_them(
    evaluate: Evaluate, scenario: str, mpi: bool, spot: bool
) -> None:
    def nodes(waiting: float, current: int) -> int:
        counts = {"ActiveTasks": waiting, "RunningTasks": 0.0, "PendingTasks": waiting}
        found = evaluate({"scenario": scenario}, mpi=mpi, spot=spot, current=current, **counts)
        assert found["dedicated" if spot else "spot"] == 0
        return int(found["spot" if spot else "dedicated"])

    assert nodes(waiting=5, current=0) == 5
    assert nodes(waiting=5, current=7) == 5
    assert nodes(waiting=0, current=7) == 0
    assert nodes(waiting=100, current=0) == 8


def test_autoscale_respects_minimum_nodes_and_maximum_increment(evaluate: Evaluate) -> None:
    idle, few = {"ActiveTasks": 0, "RunningTasks": 0}, {"ActiveTasks": [5.0], "RunningTasks": [0.0]}
    for current, counts in ((6, idle), (0, few)):
        given: dict[str, Any] = {"nodes": (2, 8), "current": current, **counts}
        assert evaluate({"scenario": "pending_tasks"}, **given)["spot"] == 2
    settings = {"scenario": "pending_tasks", "maximum_increment": 2}
    targets, current = [], 0
    for _ in range(5):
        current = evaluate(settings, current=current, ActiveTasks=7, RunningTasks=0)["spot"]
        targets.append(current)
    assert targets == [2, 4, 6, 7, 7]
    assert evaluate(settings, current=7, ActiveTasks=1, RunningTasks=0)["spot"] == 1
    assert evaluate(settings, nodes=(5, 8), ActiveTasks=7, RunningTasks=0)["spot"] == 5


@pytest.mark.parametrize("missing", ["ActiveTasks", "RunningTasks", "both"])
@pytest.mark.parametrize("last_sample", [True, False])
def test_autoscale_keeps_node_count_with_too_few_samples(
    evaluate: Evaluate, missing: str, last_sample: bool
) -> None:
    # Six of the ten samples of five minutes exist: less than the required 70 %.
    few = [0.0] * 6
    counts: dict[str, Any] = {"ActiveTasks": 8, "RunningTasks": 0}
    for name in counts:
        if missing in (name, "both"):
            counts[name] = few
    settings = {"scenario": "pending_tasks", "last_sample": last_sample}
    assert evaluate(settings, current=4, **counts)["spot"] == 4
    assert evaluate({**settings, "sample_percent": 60}, current=4, **counts)["spot"] != 4


def test_autoscale_grows_by_last_sample_and_shrinks_by_mean(evaluate: Evaluate) -> None:
    up = [0.0] * 59 + [6.0]
    quick, slow = {"scenario": "pending_tasks"}, {"scenario": "pending_tasks", "last_sample": False}
    assert evaluate(quick, ActiveTasks=up, RunningTasks=0)["spot"] == 6
    assert evaluate(slow, ActiveTasks=up, RunningTasks=0)["spot"] == 1  # a mean below one
    down = [6.0] * 58 + [0.0] * 2
    for settings in (quick, slow):
        found = evaluate(settings, current=6, ActiveTasks=down, RunningTasks=0)
        assert found["spot"] == 4  # a mean of 4.5


def test_autoscale_never_shrinks_mpi_pool_while_a_job_runs(evaluate: Evaluate) -> None:
    """Four nodes run one job, which counts as one task: the pool must not shrink to one node."""
    running = {"ActiveTasks": 0, "RunningTasks": 1, "PendingTasks": 1}
    for scenario in ("active_tasks", "pending_tasks"):
        assert evaluate({"scenario": scenario}, current=4, **running)["spot"] == 4
    one_each = evaluate({"scenario": "pending_tasks"}, mpi=False, current=4, **running)
    assert one_each["spot"] == 1


def test_autoscale_adds_nodes_for_a_second_waiting_job_only_once(evaluate: Evaluate) -> None:
    """The first job runs on four nodes; the second waits for four nodes for a number of samples.
    Until it runs, the pool is evaluated again every ten samples."""
    for spot, since in product((True, False), range(20)):
        sizes, current = [], 4
        for evaluation in range(4):
            waiting = min(60, since + 1 + 10 * evaluation)
            found = evaluate(
                {"scenario": "pending_tasks"},
                spot=spot,
                nodes=(0, 16),
                current=current,
                ActiveTasks=[0.0] * (60 - waiting) + [4.0] * waiting,
                RunningTasks=1,
            )
            current = int(found["spot" if spot else "dedicated"])
            sizes.append(current)
        # Earlier samples were already counted by the previous evaluation.
        assert sizes == ([8] * 4 if since < 10 else [5] * 4), (spot, since)


def test_autoscale_counts_nodes_per_job_and_ignores_preempted_nodes(evaluate: Evaluate) -> None:
    again = {"ActiveTasks": [0.0] * 58 + [4.0] * 2, "RunningTasks": 1}
    settings: dict[str, Any] = {"scenario": "pending_tasks"}
    assert evaluate(settings, nodes=(0, 16), current=8, PreemptedNodeCount=1, **again)["spot"] == 8
    assert evaluate(settings, nodes=(0, 16), current=8, **again)["spot"] == 12
    settings["nodes_per_job"] = 4
    assert evaluate(settings, current=4, ActiveTasks=4, RunningTasks=1)["spot"] == 8
    assert evaluate(settings, current=8, ActiveTasks=0, RunningTasks=1)["spot"] == 4


def test_autoscale_replaces_evicted_spot_nodes_at_rebalance_percent(evaluate: Evaluate) -> None:
    def nodes(percent: int, replaced: int, tasks: int = 8, **given: Any) -> tuple[int, int]:
        rebalance = {"percent": percent, "dedicated": replaced}
        settings = {"scenario": "pending_tasks", "rebalance": rebalance}
        found = evaluate(settings, mpi=False, PendingTasks=tasks, **given)
        return found["dedicated"], found["spot"]

    assert nodes(50, 3, current=8, PreemptedNodeCount=3) == (0, 8)  # 37.5 %
    assert nodes(50, 3, current=8, PreemptedNodeCount=4) == (3, 5)
    # Replacements stay while there is work, and are removed with it.
    assert nodes(50, 3, current=5, dedicated=3, PreemptedNodeCount=0) == (3, 5)
    assert nodes(50, 3, tasks=0, current=5, dedicated=3) == (0, 0)
    # A short eviction triggers no replacement.
    short = [0.0] * 58 + [8.0] * 2
    assert nodes(10, 8, current=8, PreemptedNodeCount=short) == (0, 8)


def test_autoscale_schedules_follow_weekday_and_hour(evaluate: Evaluate) -> None:
    for day, sunday, hour in product(range(7), (0, 7), (0, 7, 8, 17, 18, 23)):
        weekday, working = day < 5, day < 5 and 8 <= hour < 18
        given: dict[str, Any] = {"now": MONDAY.replace(hour=hour) + timedelta(days=day)}
        given |= {"sunday": sunday, "nodes": (1, 6)}
        spot = [
            evaluate({"scenario": scenario}, **given)["spot"]
            for scenario in ("weekday", "weekend", "workday")
        ]
        wanted = [6 if weekday else 1, 1 if weekday else 6, 6 if working else 1]
        assert spot == wanted, (day, sunday, hour)
        mixed = evaluate({"scenario": "workday_with_offpeak_max_spot"}, mpi=False, **given)
        both = (6, 0) if working else (1, 5)
        assert (mixed["dedicated"], mixed["spot"]) == both, (day, sunday, hour)


@pytest.mark.parametrize(
    ("offset", "utc", "peak"),
    [
        (-6, datetime(2026, 3, 2, 13, 59, tzinfo=UTC), False),  # 7:59 local time
        (-6, datetime(2026, 3, 2, 14, 0, tzinfo=UTC), True),
        (-6, datetime(2026, 3, 3, 0, 0, tzinfo=UTC), False),  # 18:00 local time
        (5.5, datetime(2026, 3, 2, 2, 30, tzinfo=UTC), True),
        (5.5, datetime(2026, 3, 2, 2, 29, tzinfo=UTC), False),
        # Sunday in UTC, Monday 9:00 local time.
        (10, datetime(2026, 3, 1, 23, 0, tzinfo=UTC), True),
    ],
)
def test_autoscale_workday_applies_utc_offset(
    evaluate: Evaluate, offset: float, utc: datetime, peak: bool
) -> None:
    found = evaluate({"scenario": "workday", "utc_offset": offset}, now=utc)
    assert found["spot"] == (8 if peak else 0)


def test_autoscale_applies_custom_hours_and_maximum_increment(evaluate: Evaluate) -> None:
    hours = {"scenario": "workday", "hours": {"start": 20, "end": 24}}
    assert evaluate(hours, now=MONDAY.replace(hour=23))["spot"] == 8
    assert evaluate(hours, now=MONDAY)["spot"] == 0
    slowly = {"scenario": "workday_with_offpeak_max_spot", "maximum_increment": 2}
    working = evaluate(slowly, mpi=False, current=8)
    assert (working["dedicated"], working["spot"]) == (2, 0)
    night = MONDAY.replace(hour=22)
    off_peak = evaluate(slowly, mpi=False, now=night, current=1, dedicated=8)
    assert (off_peak["dedicated"], off_peak["spot"]) == (0, 3)


@pytest.mark.parametrize(
    ("settings", "message", "path"),
    [
        ({"scenario": "workday", "formula": "x"}, "either", ()),
        ({"scenario": "pending_tasks", "every": "8d"}, "168 hours", ()),
        ({"scenario": "pending_tasks", "lookback": "2m"}, "at most 50 %", ("lookback",)),
        ({"scenario": "pending_tasks", "sample_percent": 90}, "at most 80 %", ("sample_percent",)),
        ({"scenario": "pending_tasks", "hours": {}}, "no effect", ("hours",)),
        ({"scenario": "pending_tasks", "utc_offset": 1}, "no effect", ("utc_offset",)),
        ({"scenario": "weekday", "hours": {}}, "no effect", ("hours",)),
        ({"scenario": "workday", "rebalance": {"dedicated": 1}}, "no effect", ("rebalance",)),
        ({"scenario": "active_tasks", "nodes_per_job": 2}, "no effect", ("nodes_per_job",)),
        ({"formula": "x", "maximum_increment": 1}, "no effect", ("maximum_increment",)),
    ],
)
def test_autoscale_refuses_contradictory_settings(
    settings: dict[str, Any], message: str, path: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Autoscale.model_validate(settings)
    details = caught.value.errors()  # type: ignore[attr-defined]  # pydantic's own
    assert [tuple(one["ctx"]["error"].path) for one in details] == [path]


GUARDED = "x = $ActiveTasks.GetSamplePercent(300) > 70 ? avg($ActiveTasks.GetSample(300)) : 0;"


ONE = "$TargetDedicatedNodes = 1;"
BOTH = f"{ONE} $TargetLowPriorityNodes = 1;"
AVERAGE = "$TargetDedicatedNodes = avg($ActiveTasks.GetSample"
SPOT = "$TargetLowPriorityNodes = 2; $TargetDedicatedNodes = 3;"


@pytest.mark.parametrize(
    ("formula", "refused", "shape"),
    [
        (ONE, "", {}),
        ("$TargetDedicated = 1;", "", {}),
        ("$TargetLowPriorityNodes = 1; $TargetDedicatedNodes = 0;", "", {"spot": True}),
        (SPOT, "", {"spot": True, "mpi": False}),
        (f"{GUARDED} $TargetDedicatedNodes = x;", "", {}),
        (f"{AVERAGE}(TimeInterval_Minute * 5, 70));", "", {}),
        (f"{AVERAGE}((3 * Minute), 70));", "", {}),
        (f"// $TargetLowPriorityNodes = 9;\n{ONE}", "", {}),
        (ONE, "not set the number of Spot nodes", {"spot": True}),
        ("x = $TargetDedicatedNodes == 1;", "not set the number", {}),
        (BOTH, "only one kind", {}),
        (BOTH, "sets Spot nodes", {"mpi": False}),
        (f"{AVERAGE}(180));", "reads samples", {}),
        ("$TargetDedicatedNodes = max(0, avg($ActiveTasks.GetSample((180))));", "samples", {}),
        (f"{ONE}/*{'x' * 8192}*/", "8222 bytes, and Batch accepts at most 8192", {}),
        (ONE + "x = 1;" * 100, "101 statements, and Batch accepts at most 100", {}),
    ],
)
def test_autoscale_refuses_invalid_or_harmful_custom_formula(
    formula: str, refused: str, shape: dict[str, bool]
) -> None:
    given = {"spot": False, "mpi": True, **shape}
    with pytest.raises(FieldError, match=refused) if refused else nullcontext():
        check_formula(formula, **given)


@pytest.mark.parametrize(
    ("tasks", "nodes"), [(0, 0), (0.4, 1), (1, 1), (8, 1), (9, 2), (16, 2), (17, 3), (1000, 8)]
)
def test_autoscale_divides_tasks_by_task_slots_per_node(
    evaluate: Evaluate, tasks: float, nodes: int
) -> None:
    settings = {"scenario": "pending_tasks"}
    found = evaluate(settings, mpi=False, task_slots=8, PendingTasks=tasks)
    assert found == evaluate(settings, mpi=False, PendingTasks=nodes)
