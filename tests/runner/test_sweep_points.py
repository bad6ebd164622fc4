"""The `sweep:` section: the fields that it accepts, and its points, their order and number."""

import itertools
import json
from pathlib import Path
from typing import Any

import pages
import pytest
from endings import refused
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_core.documents import Document, FieldError
from fairway_core.findings import Finding, UserError, format_finding
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.sweep_models import Sweep
from fairway_runner.jobs.sweep_points import points
from fairway_runner.jobs.sweep_values import Range

HERE = Path("/nowhere")


def read(points: str) -> Sweep:
    text = parse_yaml(f"points: {points}\n", "sweep.yaml")
    return Document(text, text.data).validate(Sweep)


def listed(text: str, folder: Path = HERE) -> list[dict[str, Any]]:
    """Returns the points, and asserts that they are as many as the section predicts."""
    section = read(text)
    found = list(points(section, folder, {}, ()))
    counts = [each.count for _, each in section.generators()]
    assert None in counts or sum(map(int, counts)) == len(found)
    return found


VALUE = st.one_of(st.integers(-9, 9), st.booleans(), st.text("ab{% ", max_size=3))
VALUES = st.lists(st.one_of(VALUE, st.lists(VALUE, max_size=3)), min_size=1, max_size=4)
SCALARS = st.lists(VALUE, min_size=1, max_size=4)
AXES = st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1, max_size=3)


def generator(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draws a generator, and its points as itertools makes them."""
    kind = draw(st.sampled_from(["grid", "zip", "combinations", "permutations", "repeat"]))
    if kind == "repeat":
        count = draw(st.integers(1, 4))
        return {kind: count}, [{}] * count
    if kind in ("grid", "zip"):
        axes = draw(AXES)
        if kind == "zip":
            least = min(map(len, axes.values()))
            axes = {name: values[:least] for name, values in axes.items()}
        joined = (
            itertools.product(*axes.values())
            if kind == "grid"
            else zip(*axes.values(), strict=False)
        )
        return {kind: axes}, [dict(zip(axes, point, strict=True)) for point in joined]
    values = draw(SCALARS)
    section: dict[str, Any] = {"pick": values, "length": draw(st.integers(1, len(values)))}
    chosen: Any = getattr(itertools, kind)
    if kind == "combinations" and draw(st.booleans()):
        section |= {"replacement": True, "length": draw(st.integers(1, 6))}
        chosen = itertools.combinations_with_replacement
    return {kind: section}, [{"pick": list(p)} for p in chosen(values, section["length"])]


@tried
@given(st.lists(st.composite(generator)(), min_size=1, max_size=3))
def test_sweep_points_equal_those_of_itertools_in_order(made: list[Any]) -> None:
    found = listed(json.dumps([section for section, _ in made]))
    # Equality is not enough: 1, 1.0 and true differ for a program.
    assert repr(found) == repr([point for _, points in made for point in points])


RANGES: list[tuple[Any, list[float]]] = [
    ((0.5, 1.0, 0.1), [0.5, 0.6, 0.7, 0.8, 0.9]),
    ((0.0, 1.0, 0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    ((1.0, 0.5, -0.1), [1.0, 0.9, 0.8, 0.7, 0.6]),
    ((1, 5, 2), [1, 3]),
    ((1, 6, 2), [1, 3, 5]),
    ((5, 0, -2), [5, 3, 1]),
    ((-1, 1, 1), [-1, 0]),
    ((0, 1, 0.25), [0.0, 0.25, 0.5, 0.75]),
    ((0, 1, 5), [0]),
    ((1e-3, 2e-3, 5e-4), [0.001, 0.0015]),
    ((1e300, 1.5e300, 2.5e299), [1e300, 1.25e300]),
    ((5e-324, 2e-323, 5e-324), [5e-324, 1e-323, 1.5e-323]),
    ((10**20, 10**20 + 3, 1), [10**20, 10**20 + 1, 10**20 + 2]),
]


@pytest.mark.parametrize(("bounds", "expected"), RANGES)
def test_sweep_range_values_do_not_drift(
    bounds: tuple[float, float, float], expected: list[float]
) -> None:
    axis = Range(start=bounds[0], stop=bounds[1], step=bounds[2])
    assert axis.values == expected
    assert axis.count == len(expected)
    assert [type(value) for value in axis.values] == [type(value) for value in expected]


def test_sweep_points_are_lazy_and_limited_and_ranges_are_exact(tmp_path: Path) -> None:
    refused(lambda: Range(start=0, stop=10**400, step=1), "the number is too large")
    axis = Range(start=-3.0, stop=7.0, step=0.001)
    assert axis.values == [round(-3 + index / 1000, 3) for index in range(10_000)]
    section = read("[{grid: {a: [1, 2]}}, {files: nothing.csv}]")
    found = points(section, HERE, {}, ())
    assert [next(found), next(found)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(FieldError, match="matches no file") as caught:
        next(found)
    assert caught.value.path == ("points", 1, "files")
    section = read(
        "[{grid: {a: {start: 0, stop: 3, step: 1}}}, {random: {count: 2, b: {gauss: [0, 1]}}}]"
    )
    assert list(points(section, HERE, {}, ())) == list(points(section, HERE, {}, ()))
    assert sum(1 for _ in points(read("{repeat: 100000}"), HERE, {}, ())) == 100_000
    axis = "{start: 0, stop: 100000, step: 1}"
    assert len(listed(f"{{grid: {{a: {axis}}}}}")) == 100_000
    (tmp_path / "x.csv").touch()
    (tmp_path / "endless.py").write_text(
        "import itertools\ndef f():\n    for i in itertools.count():\n        yield {'i': i}\n"
    )
    for text in (
        "[{repeat: 100000}, {files: '*.csv'}]",
        "[{repeat: 99990}, {python: 'endless:f'}]",
    ):
        with pytest.raises(FieldError, match="more than 100,000 points") as caught:
            for _ in points(read(text), tmp_path, {}, ()):
                pass
        assert caught.value.path[:2] == ("points", 1)


def findings(points: str) -> tuple[Finding, ...]:
    with pytest.raises(UserError) as caught:
        read(points)
    assert caught.value.exit_code == 2
    assert all(each.location and each.location.line == 1 for each in caught.value.findings)
    return caught.value.findings


ACCEPTED = [
    "{grid: {lr: [0.1, 0.01], name: [a, true, 3, [1, b]]}}",
    "[{grid: {x: {start: 3, stop: 0, step: -1}}}]",
    "[{zip: {a: [1, 2], b: {start: 0, stop: 2, step: 1}}}]",
    "[{combinations: {pair: [a, b], length: 3, replacement: true}}]",
    "[{permutations: {order: [1, 2, 3], length: 2}}]",
    "[{random: {count: 1, seed: 0, a: {integer: [-2, 2]}, b: {gauss: [-1, 0.5]}}}]",
    "[{random: {count: 1, a: {uniform: [2, 2]}, b: {integer: [0, 9, 3]}}}]",
    "[{random: {count: 1, a: {triangular: [1, 1, 1]}}}]",
    "[{repeat: 100000}]",
    "{shards: {input: data, of: 200}}",
    "[{files: '/data/**/x-[0-9].bin'}, {python: 'pkg.points:generate'}]",
]


@pytest.mark.parametrize("points", ACCEPTED)
def test_sweep_section_accepts_every_kind_of_generator(points: str) -> None:
    section = read(points)
    # The recorded section of a run must parse to an equal section.
    again = Sweep.model_validate_json(section.model_dump_json(exclude_none=True), strict=True)
    assert again == section


def test_sweep_section_reports_each_fault_at_its_path() -> None:
    def answer(points: str) -> tuple[int, str]:
        (finding,) = findings(points)
        assert finding.path.startswith("points")
        return 2, format_finding(finding)

    pages.hold("sweeps", answer)
    text = parse_yaml("points: {}\n", "sweep.yaml")
    axis = {"start": 0.5, "stop": 10**400, "step": 10**399}
    with pytest.raises(UserError, match="too large") as caught:
        Document(text, {"points": {"grid": {"a": axis}}}).validate(Sweep)
    assert caught.value.findings[0].path == "points.grid.a.stop"
    (finding,) = findings("{grid: {lr: [1], lr: [2]}}")
    assert finding.id == "duplicate-key"
    text = parse_yaml("max_parallel: 2\n", "sweep.yaml")
    refused(lambda: Document(text, text.data).validate(Sweep), "`points` is missing")
    points = "[{grid: {a: []}}, {repeat: 0}, {random: {count: 1, x: {beta: [0, 1]}, y: 1}}]"
    found = findings(points)
    paths = ["points.0.grid.a", "points.1.repeat", "points.2.random.x.beta.0", "points.2.random.y"]
    assert [each.path for each in found] == paths
    columns = [each.location.column for each in found if each.location]
    assert columns == sorted(columns)
    assert len(set(columns)) == len(columns)
    (finding,) = findings("[{random: {count: 1, x: {logunifrom: [1, 2]}}}]")
    assert finding.id == "unknown-key"
    assert finding.hint == "did you mean `loguniform`?"
    (finding,) = findings("[{random: {count: 1, x: {cauchy: [1, 2]}}}]")
    assert "one of: beta, choice, exponential" in finding.hint


@pytest.mark.parametrize("number", [".nan", ".inf", "1e999"])
def test_sweep_section_refuses_numbers_that_are_not_finite(number: str) -> None:
    refused(lambda: read(f"{{grid: {{a: [{number}]}}}}"), "not a finite number")
    with pytest.raises(UserError, match="not a finite number"):
        read(f"{{random: {{count: 1, a: {{uniform: [0, {number}]}}}}}}")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_sweep_distribution_refuses_parameters_that_are_not_finite(value: float) -> None:
    text = parse_yaml("points:\n  random: {count: 1, a: {gauss: [0, 1]}}\n", "sweep.yaml")
    data = {"points": {"random": {"count": 1, "a": {"gauss": [value, 1]}}}}
    refused(lambda: Document(text, data).validate(Sweep), "finite number")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_sweep_max_parallel_must_be_a_positive_integer(value: str) -> None:
    text = parse_yaml(f"max_parallel: {value}\npoints: {{repeat: 2}}\n", "sweep.yaml")
    assert refused(lambda: Document(text, text.data).validate(Sweep)).path == "max_parallel"
