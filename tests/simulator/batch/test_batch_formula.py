"""Interpreter of Batch's formula language, on which the tests of scenarios rely."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairway_simulator.batch.scheduling import formula as interpreter

Evaluate = Callable[..., int]

NOW = datetime(2026, 3, 4, 12, 30, 15, tzinfo=UTC)  # a Wednesday


@pytest.fixture
def result() -> Evaluate:
    """Evaluates an expression."""

    def evaluate(expression: str, **pool: Any) -> int:
        formula = f"$TargetDedicatedNodes = {expression};"
        return int(interpreter.Pool(now=NOW, **pool).evaluate(formula)["dedicated"])

    return evaluate


def _history(*values: float, until: timedelta = timedelta(seconds=60)) -> list[Any]:
    start = NOW - until - timedelta(seconds=30) * (len(values) - 1)
    return [(start + timedelta(seconds=30) * i, value) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("10 / 4", 2),
        ("-2 + 5", 3),
        ("1 < 2", 1),
        ("2 <= 1 || 3 >= 3 && 1 != 1", 0),
        ("!(1 == 2)", 1),
        ("0 ? 4 : 1 ? 5 : 6", 5),
        ("min(4, 3, max(1, 2))", 2),
        ("avg(1, 2, 6)", 3),
        ("time().hour * 100 + time().minute", 1230),
        ("time().weekday", 3),
        ("(time() + -750 * TimeInterval_Minute).hour", 0),
        ("(time() + TimeInterval_Day * 4).weekday", 7),
        ("3 // three\n + 1", 4),
    ],
)
def test_batch_formula_evaluates_expressions(result: Evaluate, expression: str, value: int) -> None:
    assert result(expression) == value


def test_batch_formula_samples_by_number_interval_and_percentage(result: Evaluate) -> None:
    history = {
        "$ActiveTasks": _history(*range(1, 11))
    }  # the newest, 10, is just old enough to be read
    lookback = "5 * TimeInterval_Minute"
    assert result("val($ActiveTasks.GetSample(1), 0)", history=history) == 10
    assert result("len($ActiveTasks.GetSample(3))", history=history) == 3
    # Ten fit into five minutes, and samples of the last minute are not available yet.
    assert result(f"len($ActiveTasks.GetSample({lookback}))", history=history) == 8
    assert result(f"$ActiveTasks.GetSamplePercent({lookback})", history=history) == 80
    assert result(f"len($ActiveTasks.GetSample({lookback}, 75))", history=history) == 8
    with pytest.raises(interpreter.FormulaError, match="80 %"):
        result(f"len($ActiveTasks.GetSample({lookback}, 85))", history=history)


def test_batch_formula_sample_cannot_be_read_within_its_first_minute(result: Evaluate) -> None:
    history = {"$ActiveTasks": _history(3, until=timedelta(seconds=30))}
    with pytest.raises(interpreter.FormulaError):
        result("val($ActiveTasks.GetSample(1), 0)", history=history)


def test_batch_formula_evaluates_the_other_branch_only_if_eager(result: Evaluate) -> None:
    assert result("1 ? 2 : avg($ActiveTasks.GetSample(1))") == 2
    with pytest.raises(interpreter.FormulaError, match="avg of nothing"):
        result("1 ? 2 : avg($ActiveTasks.GetSample(1))", eager=True)


@pytest.mark.parametrize(
    "formula",
    [
        "$TargetDedicatedNodes = nothing;",
        "$TargetDedicatedNodes = 1",
        "$ActiveTasks = 1;",
        "$CurrentDedicatedNodes = 1;",
        "$TargetDedicatedNodes = floor(1.5);",
        "$TargetDedicatedNodes = $ActiveTasks + 1;",
        "$TargetDedicatedNodes = time().era;",
        "$TargetDedicatedNodes = 1 # 2;",
        "1 = 2;",
    ],
)
def test_batch_formula_that_the_service_would_refuse_fails(formula: str) -> None:
    with pytest.raises(interpreter.FormulaError):
        interpreter.Pool(now=NOW).evaluate(formula)
