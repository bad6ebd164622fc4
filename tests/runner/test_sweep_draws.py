"""Random values of sweeps: reproducible by their seed, and distributed as their names say."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fairway_core.documents import Document, FieldError
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.sweep_models import Sweep
from fairway_runner.jobs.sweep_points import points
from fairway_runner.jobs.sweep_values import Distribution

HERE = Path("/nowhere")
SAMPLE = 2000
LOG = math.log(10_000)


def sample(distribution: dict[str, Any], size: int, seed: int = 7) -> list[Any]:
    return list(islice(Distribution(**distribution).draws(seed, "lr"), size))


def sweep(text: str) -> list[dict[str, Any]]:
    parsed = parse_yaml(f"points: {{random: {text}}}\n", "sweep.yaml")
    return list(points(Document(parsed, parsed.data).validate(Sweep), HERE, {}, ()))


EACH: list[dict[str, Any]] = [
    {"integer": [2, 9]},
    {"integer": [-(10**15), 10**15]},
    {"uniform": [-1, 1]},
    {"loguniform": [0.0001, 0.1]},
    {"triangular": [0, 10, 2]},
    {"beta": [2, 3]},
    {"gamma": [2, 3]},
    {"weibull": [1.5, 2]},
    {"exponential": [0.25]},
    {"gauss": [1, 2]},
    {"lognormal": [0, 0.5]},
    {"pareto": [3]},
    {"choice": ["sgd", "adam", [1, 2], True, 0.1234567890123456]},
]


def test_sweep_draws_of_a_seed_are_equal_in_another_process() -> None:
    """The other process has another hash seed."""
    program = f"""
from itertools import islice
from fairway_runner.jobs.sweep_values import Distribution
for each in {EACH!r}:
    print(list(islice(Distribution(**each).draws(7, "lr"), 20)))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    said = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment)
    assert said.splitlines() == [repr(sample(each, 20)) for each in EACH]
    assert all(sample(each, 20, seed=8) != sample(each, 20) for each in EACH)


def test_sweep_draws_stay_within_bounds_and_digits_of_every_distribution() -> None:
    assert {next(iter(each)) for each in EACH} == set(Distribution.model_fields)
    low, high = 0.12345678901234567, 0.12345678901234570
    assert all(low <= value <= high for value in sample({"uniform": [low, high]}, 50))
    assert all(low <= value <= high for value in sample({"loguniform": [low, high]}, 50))
    assert sample({"uniform": [2, 2]}, 2) == [2.0, 2.0]
    assert sample({"triangular": [2, 2, 2]}, 2) == [2.0, 2.0]
    assert sample({"triangular": [0, 5e-324, 0]}, 2) == [0.0, 0.0]
    assert set(sample({"integer": [5, 6]}, 9)) == {5}
    assert set(sample({"integer": [-3, 4]}, 99)) == {*range(-3, 4)}
    assert set(sample({"integer": [0, 10, 4]}, 99)) == {0, 4, 8}
    assert set(sample({"choice": ["a", "b", "c"]}, 99)) == {"a", "b", "c"}
    for value in sample({"gauss": [0, 1e-7]}, 100):
        assert value == float(f"{value:.12g}")
    assert math.copysign(1, sample({"exponential": [1e300]}, 1)[0]) == 1


def _gauss(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


# Each distribution with its cumulative distribution function and its mean.
CONTINUOUS: list[tuple[dict[str, Any], Callable[[float], float], float]] = [
    ({"uniform": [-1, 3]}, lambda x: (x + 1) / 4, 1.0),
    ({"loguniform": [0.01, 100]}, lambda x: math.log(x * 100) / LOG, 99.99 / LOG),
    ({"triangular": [0, 10, 2]}, lambda x: x * x / 20 if x < 2 else 1 - (10 - x) ** 2 / 80, 4.0),
    ({"beta": [2, 3]}, lambda x: x * x * (6 - 8 * x + 3 * x * x), 0.4),
    ({"gamma": [2, 3]}, lambda x: 1 - math.exp(-x / 3) * (1 + x / 3), 6.0),
    ({"weibull": [1.5, 2]}, lambda x: 1 - math.exp(-((x / 1.5) ** 2)), 1.5 * math.gamma(1.5)),
    ({"exponential": [0.25]}, lambda x: 1 - math.exp(-x / 4), 4.0),
    ({"gauss": [1, 2]}, lambda x: _gauss((x - 1) / 2), 1.0),
    ({"lognormal": [0.5, 0.5]}, lambda x: _gauss((math.log(x) - 0.5) / 0.5), math.exp(0.625)),
    ({"pareto": [3]}, lambda x: 1 - x**-3, 1.5),
]


@pytest.mark.integration
@pytest.mark.parametrize(("distribution", "cdf", "mean"), CONTINUOUS)
def test_sweep_draws_follow_the_named_distribution(
    distribution: dict[str, Any], cdf: Callable[[float], float], mean: float
) -> None:
    values = sorted(sample(distribution, SAMPLE, seed=11))
    average = math.fsum(values) / SAMPLE
    deviation = math.sqrt(math.fsum((value - average) ** 2 for value in values) / SAMPLE)
    assert abs(average - mean) < 4 * deviation / math.sqrt(SAMPLE)
    # Kolmogorov-Smirnov test: one sample in a hundred exceeds this distance.
    distance = max(
        max(abs(cdf(value) - rank / SAMPLE), abs(cdf(value) - (rank + 1) / SAMPLE))
        for rank, value in enumerate(values)
    )
    assert distance < 1.63 / math.sqrt(SAMPLE)


@pytest.mark.parametrize(
    "distribution", [{"pareto": [1e-4]}, {"lognormal": [1e6, 1]}, {"uniform": [-1.7e308, 1.7e308]}]
)
def test_sweep_draws_beyond_the_range_of_floats_are_refused(distribution: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match="too large for a number") as caught:
        sample(distribution, 200)
    assert caught.value.path == (next(iter(distribution)),)
    assert caught.value.hint
    with pytest.raises(FieldError) as caught:
        sweep("{count: 200, lr: {pareto: [1.0e-4]}}")
    assert caught.value.path == ("points", "random", "lr", "pareto")


def test_sweep_draws_of_each_parameter_have_a_separate_stream() -> None:
    lr = "lr: {loguniform: [1.0e-4, 0.1]}"
    alone = [point["lr"] for point in sweep(f"{{count: 10, seed: 3, {lr}}}")]
    beside = sweep(f"{{count: 10, seed: 3, x: {{gauss: [0, 1]}}, {lr}, y: {{uniform: [0, 1]}}}}")
    assert [point["lr"] for point in beside] == alone
    assert list(beside[0]) == ["x", "lr", "y"]
    # A larger count continues the values of the smaller one.
    assert [point["lr"] for point in sweep(f"{{count: 25, seed: 3, {lr}}}")][:10] == alone
    # Another seed or another name is another stream.
    assert [point["lr"] for point in sweep(f"{{count: 10, seed: 4, {lr}}}")] != alone
    twins = sweep("{count: 10, seed: 3, a: {uniform: [0, 1]}, b: {uniform: [0, 1]}}")
    assert all(point["a"] != point["b"] for point in twins)
    assert sweep("{count: 3, a: {uniform: [0, 1]}}") == sweep(
        "{count: 3, seed: 0, a: {uniform: [0, 1]}}"
    )
    random.seed(1)
    before = random.getstate()
    sample({"lognormal": [0, 0.5]}, 4)
    assert random.getstate() == before


def test_sweep_draws_keep_previously_drawn_values() -> None:
    """Grid points stay as they are, and points beyond the kept ones are drawn anew."""
    text = "points: [{grid: {lr: [1, 2]}}, {random: {count: 3, lr: {uniform: [0, 1]}}}]\n"
    parsed = parse_yaml(text, "sweep.yaml")
    section = Document(parsed, parsed.data).validate(Sweep)
    anew = list(points(section, HERE, {}, ()))
    drawn = [{"lr": 7.0, "epochs": 3}] * 4
    found = [point["lr"] for point in points(section, HERE, {}, drawn)]
    assert found == [1, 2, 7.0, 7.0, anew[4]["lr"]]
