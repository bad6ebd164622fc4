"""Random values: the same for ever, and distributed as their names say."""

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fairway_core.documents import Document, FieldError
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.sweep.distributions import Distribution
from fairway_runner.jobs.sweep.draws import below, draws, stream
from fairway_runner.jobs.sweep.exact import exp, log
from fairway_runner.jobs.sweep.expansion import points
from fairway_runner.jobs.sweep.models import Sweep

HERE = Path("/nowhere")
SAMPLE = 2000


def sample(distribution: dict[str, Any], size: int, seed: int = 7) -> list[Any]:
    return list(islice(draws(Distribution(**distribution), seed, "lr"), size))


def sweep(text: str) -> list[dict[str, Any]]:
    parsed = parse_yaml(f"points: {{random: {text}}}\n", "sweep.yaml")
    return list(points(Document(parsed, parsed.data).validate(Sweep), HERE))


# The first values of seed 7 and the parameter `lr`. A change here changes every user's sweeps.
GOLDEN: list[tuple[dict[str, Any], list[Any]]] = [
    ({"integer": [2, 9]}, [8, 6, 6, 4]),
    (
        {"integer": [-(10**15), 10**15]},
        [445445105444392, 437914252112278, -267206821857425, 846975982914645],
    ),
    ({"uniform": [-1, 1]}, [0.209131707079, 0.651548731577, -0.837287228268, -0.589888947568]),
    (
        {"loguniform": [0.0001, 0.1]},
        [0.00651174762964, 0.0300139460365, 0.000175415981421, 0.000412255614163],
    ),
    ({"triangular": [0, 10, 2]}, [4.37552387179, 6.26663010982, 1.27558916479, 2.02531769268]),
    ({"beta": [2, 3]}, [0.384735469655, 0.459604689876, 0.153150149732, 0.0557842926291]),
    ({"beta": [0.5, 0.5]}, [0.888918945401, 0.85597095093, 0.138390872451, 0.461370005982]),
    ({"gamma": [2, 3]}, [6.60443991296, 7.07601624394, 6.83719038052, 5.03088593466]),
    ({"gamma": [0.5, 2]}, [2.05049524998, 0.256233907487, 2.98415154212, 0.502125111166]),
    ({"weibull": [1.5, 2]}, [1.44481306007, 1.98284118396, 0.436953448235, 0.718565776317]),
    ({"exponential": [0.25]}, [3.71108405077, 6.98961628591, 0.339428117199, 0.917932044256]),
    ({"gauss": [1, 2]}, [1.75296401069, 1.29786030763, -0.811046347841, 1.85165202582]),
    ({"lognormal": [0, 0.5]}, [1.2071244005, 1.07730771995, 0.635869715188, 1.23727701145]),
    ({"pareto": [3]}, [1.36241247128, 1.79045186013, 1.0286895148, 1.07949607716]),
    ({"choice": ["sgd", "adam", [1, 2], True]}, ["sgd", [1, 2], True, "adam"]),
]


@pytest.mark.parametrize(("distribution", "expected"), GOLDEN)
def test_the_same_seed_gives_the_same_values(
    distribution: dict[str, Any], expected: list[Any]
) -> None:
    found = sample(distribution, 4)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_every_distribution_has_golden_values() -> None:
    assert {next(iter(each)) for each, _ in GOLDEN} == set(Distribution.model_fields)


def test_streams_are_those_of_pythons_generator() -> None:
    seed = int.from_bytes(hashlib.sha256(b"7 lr").digest(), "big")
    expected = random.Random(seed)
    uniform = stream(7, "lr")
    assert [uniform() for _ in range(5)] == [expected.random() for _ in range(5)]


def _gauss(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


# Each with its distribution function, its support, and its mean (None where it has none).
CONTINUOUS: list[tuple[dict[str, Any], Callable[[float], float], float, float, float]] = [
    ({"uniform": [-1, 3]}, lambda x: (x + 1) / 4, -1, 3, 1.0),
    (
        {"loguniform": [0.01, 100]},
        lambda x: math.log(x / 0.01) / math.log(10_000),
        0.01,
        100,
        99.99 / math.log(10_000),
    ),
    (
        {"triangular": [0, 10, 2]},
        lambda x: x * x / 20 if x < 2 else 1 - (10 - x) ** 2 / 80,
        0,
        10,
        4.0,
    ),
    ({"triangular": [0, 1, 0]}, lambda x: 1 - (1 - x) ** 2, 0, 1, 1 / 3),
    ({"triangular": [0, 1, 1]}, lambda x: x * x, 0, 1, 2 / 3),
    ({"beta": [2, 3]}, lambda x: x * x * (6 - 8 * x + 3 * x * x), 0, 1, 0.4),
    ({"beta": [0.5, 0.5]}, lambda x: 2 / math.pi * math.asin(math.sqrt(x)), 0, 1, 0.5),
    ({"gamma": [2, 3]}, lambda x: 1 - math.exp(-x / 3) * (1 + x / 3), 0, math.inf, 6.0),
    ({"gamma": [1, 3]}, lambda x: 1 - math.exp(-x / 3), 0, math.inf, 3.0),
    ({"gamma": [0.5, 2]}, lambda x: math.erf(math.sqrt(x / 2)), 0, math.inf, 1.0),
    (
        {"weibull": [1.5, 2]},
        lambda x: 1 - math.exp(-((x / 1.5) ** 2)),
        0,
        math.inf,
        1.5 * math.gamma(1.5),
    ),
    ({"exponential": [0.25]}, lambda x: 1 - math.exp(-x / 4), 0, math.inf, 4.0),
    ({"gauss": [1, 2]}, lambda x: _gauss((x - 1) / 2), -math.inf, math.inf, 1.0),
    (
        {"lognormal": [0.5, 0.5]},
        lambda x: _gauss((math.log(x) - 0.5) / 0.5),
        0,
        math.inf,
        math.exp(0.625),
    ),
    ({"pareto": [3]}, lambda x: 1 - x**-3, 1, math.inf, 1.5),
]


@pytest.mark.parametrize(("distribution", "cdf", "low", "high", "mean"), CONTINUOUS)
def test_values_are_distributed_as_the_name_says(
    distribution: dict[str, Any],
    cdf: Callable[[float], float],
    low: float,
    high: float,
    mean: float,
) -> None:
    values = sorted(sample(distribution, SAMPLE, seed=11))
    assert low <= values[0]
    assert values[-1] <= high
    average = math.fsum(values) / SAMPLE
    deviation = math.sqrt(math.fsum((value - average) ** 2 for value in values) / SAMPLE)
    assert abs(average - mean) < 4 * deviation / math.sqrt(SAMPLE)
    # Kolmogorov and Smirnov: the largest distance, which one sample in a hundred exceeds.
    distance = max(
        max(abs(cdf(value) - rank / SAMPLE), abs(cdf(value) - (rank + 1) / SAMPLE))
        for rank, value in enumerate(values)
    )
    assert distance < 1.63 / math.sqrt(SAMPLE)


@pytest.mark.parametrize(
    ("distribution", "values"),
    [({"integer": [-3, 4]}, list(range(-3, 4))), ({"choice": ["a", "b", "c"]}, ["a", "b", "c"])],
)
def test_discrete_values_are_equally_likely(
    distribution: dict[str, Any], values: list[Any]
) -> None:
    tally = Counter(sample(distribution, 7000))
    assert sorted(tally) == values
    expected = 7000 / len(values)
    square = sum((found - expected) ** 2 / expected for found in tally.values())
    assert square < 16.8  # chi-squared with 6 degrees of freedom at one in a hundred


def test_whole_numbers_have_no_bias() -> None:
    drawn = iter([1 - 2**-53, 0.5, 0.0])
    # Of 2^53 numbers, the last (2^53 mod 3 = 2) would favour 0 and 1: it is drawn again.
    assert below(3, lambda: next(drawn)) == 2**52 % 3
    assert below(2**53, lambda: 1 - 2**-53) == 2**53 - 1
    assert below(1, lambda: 0.7) == 0


def test_the_extremes_of_a_stream_stay_in_range() -> None:
    from fairway_runner.jobs.sweep import draws as module

    for number in (0.0, 1 - 2**-53, 0.5):
        for distribution, _ in GOLDEN:
            key, values = next(iter(distribution.items()))
            if key in ("choice", "integer", "beta", "gamma", "gauss", "lognormal"):
                continue  # they draw until they have a number that suits them
            value = module._DRAWS[key](lambda number=number: number, *values)
            assert math.isfinite(value)


def test_bounds_hold_after_rounding() -> None:
    low, high = 0.12345678901234567, 0.12345678901234570
    assert all(low <= value <= high for value in sample({"uniform": [low, high]}, 50))
    assert all(low <= value <= high for value in sample({"loguniform": [low, high]}, 50))
    assert sample({"uniform": [2, 2]}, 2) == [2.0, 2.0]
    assert sample({"triangular": [2, 2, 2]}, 2) == [2.0, 2.0]
    assert sample({"triangular": [0, 5e-324, 0]}, 2) == [0.0, 0.0]
    assert set(sample({"integer": [5, 6]}, 9)) == {5}
    wide = sample({"uniform": [-1.7e308, 1.7e308]}, 200)
    assert min(wide) < -1e308
    assert max(wide) > 1e308


def test_small_shapes_do_not_divide_by_zero() -> None:
    values = sample({"beta": [0.001, 0.001]}, 200)
    assert all(0 <= value <= 1 for value in values)
    assert 60 < sum(value > 0.5 for value in values) < 140
    assert all(value >= 0 for value in sample({"gamma": [0.001, 1]}, 50))


def test_numbers_have_twelve_digits() -> None:
    for value in sample({"gauss": [0, 1e-7]}, 100):
        assert value == float(f"{value:.12g}")
    assert math.copysign(1, sample({"exponential": [1e300]}, 1)[0]) == 1


@pytest.mark.parametrize("distribution", [{"pareto": [1e-4]}, {"lognormal": [1e6, 1]}])
def test_a_value_beyond_floats_is_the_users_to_fix(distribution: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match="too large for a number") as caught:
        sample(distribution, 200)
    assert caught.value.path == (next(iter(distribution)),)
    assert caught.value.hint
    with pytest.raises(FieldError) as caught:
        sweep("{count: 200, lr: {pareto: [1.0e-4]}}")
    assert caught.value.path == ("points", "random", "lr", "pareto")


def test_a_parameter_draws_from_a_stream_of_its_own() -> None:
    lr = "lr: {loguniform: [1.0e-4, 0.1]}"
    alone = [point["lr"] for point in sweep(f"{{count: 10, seed: 3, {lr}}}")]
    beside = sweep(f"{{count: 10, seed: 3, x: {{gauss: [0, 1]}}, {lr}, y: {{uniform: [0, 1]}}}}")
    assert [point["lr"] for point in beside] == alone
    assert list(beside[0]) == ["x", "lr", "y"]
    # A larger count goes on where the smaller one ended.
    assert [point["lr"] for point in sweep(f"{{count: 25, seed: 3, {lr}}}")][:10] == alone
    # Another seed or another name is another stream.
    assert [point["lr"] for point in sweep(f"{{count: 10, seed: 4, {lr}}}")] != alone
    twins = sweep("{count: 10, seed: 3, a: {uniform: [0, 1]}, b: {uniform: [0, 1]}}")
    assert all(point["a"] != point["b"] for point in twins)


def test_without_a_seed_it_is_zero() -> None:
    assert sweep("{count: 3, a: {uniform: [0, 1]}}") == sweep(
        "{count: 3, seed: 0, a: {uniform: [0, 1]}}"
    )


def test_neither_pythons_generator_nor_its_decimals_are_touched() -> None:
    random.seed(1)
    before = random.getstate()
    with localcontext() as context:
        context.prec = 3
        found = sample({"lognormal": [0, 0.5]}, 4)
    assert random.getstate() == before
    assert found == [1.2071244005, 1.07730771995, 0.635869715188, 1.23727701145]


def test_exact_functions_agree_with_the_c_library_to_its_last_bit() -> None:
    uniform = stream(1, "x")
    for _ in range(300):
        x = uniform()
        assert abs(log(x) - math.log(x)) <= math.ulp(math.log(x))
        assert abs(exp(40 * x - 20) - math.exp(40 * x - 20)) <= math.ulp(math.exp(40 * x - 20))
    assert (log(1.0), exp(0.0), log(0.0), exp(-math.inf)) == (0.0, 1.0, -math.inf, 0.0)
    assert (exp(1e300), exp(-1e300)) == (math.inf, 0.0)
    with localcontext() as context:
        context.prec = 40
        assert log(0.375) == float(Decimal("0.375").ln())
