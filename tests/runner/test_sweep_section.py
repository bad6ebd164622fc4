"""The `sweep:` section: what it takes, and what it says about what it does not take."""

import pages
import pytest
from endings import refused

from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError, format_finding
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.sweep.models import Sweep


def read(points: str) -> Sweep:
    text = parse_yaml(f"points: {points}\n", "sweep.yaml")
    return Document(text, text.data).validate(Sweep)


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
    "[{random: {count: 1, a: {uniform: [2, 2]}, b: {triangular: [1, 1, 1]}}}]",
    "[{repeat: 100000}]",
    "{shards: {input: data, of: 200}}",
    "[{files: '/data/**/x-[0-9].bin'}, {python: 'pkg.points:generate'}]",
]


@pytest.mark.parametrize("points", ACCEPTED)
def test_accepts(points: str) -> None:
    section = read(points)
    # What is recorded of a run reads back as the same section.
    again = Sweep.model_validate_json(section.model_dump_json(exclude_none=True), strict=True)
    assert again == section


def test_messages_of_sweeps_that_are_refused() -> None:
    def answer(points: str) -> tuple[int, str]:
        (finding,) = findings(points)
        assert finding.path.startswith("points")
        return 2, format_finding(finding)

    pages.hold("sweeps", answer)


def test_an_unknown_distribution_is_told_the_nearest_name() -> None:
    (finding,) = findings("[{random: {count: 1, x: {logunifrom: [1, 2]}}}]")
    assert finding.id == "unknown-key"
    assert finding.hint == "did you mean `loguniform`?"
    (finding,) = findings("[{random: {count: 1, x: {cauchy: [1, 2]}}}]")
    assert "one of: beta, choice, exponential" in finding.hint


@pytest.mark.parametrize("number", [".nan", ".inf", "1e999"])
def test_no_number_is_infinite(number: str) -> None:
    with pytest.raises(UserError, match="not a finite number"):
        read(f"{{grid: {{a: [{number}]}}}}")
    with pytest.raises(UserError, match="not a finite number"):
        read(f"{{random: {{count: 1, a: {{uniform: [0, {number}]}}}}}}")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_no_parameter_of_a_distribution_is_infinite(value: float) -> None:
    text = parse_yaml("points:\n  random: {count: 1, a: {gauss: [0, 1]}}\n", "sweep.yaml")
    data = {"points": {"random": {"count": 1, "a": {"gauss": [value, 1]}}}}
    with pytest.raises(UserError, match="finite number"):
        Document(text, data).validate(Sweep)


def test_sweep_section_refuses_wide_ranges_double_names_and_no_points() -> None:
    text = parse_yaml("points: {}\n", "sweep.yaml")
    axis = {"start": 0.5, "stop": 10**400, "step": 10**399}
    with pytest.raises(UserError, match="too large") as caught:
        Document(text, {"points": {"grid": {"a": axis}}}).validate(Sweep)
    assert caught.value.findings[0].path == "points.grid.a.stop"
    (finding,) = findings("{grid: {lr: [1], lr: [2]}}")
    assert finding.id == "duplicate-key"
    text = parse_yaml("max_parallel: 2\n", "sweep.yaml")
    with pytest.raises(UserError, match="`points` is missing"):
        Document(text, text.data).validate(Sweep)


def test_sweep_section_reports_each_fault_as_a_finding() -> None:
    points = "[{grid: {a: []}}, {repeat: 0}, {random: {count: 1, x: {beta: [0, 1]}, y: 1}}]"
    found = findings(points)
    paths = ["points.0.grid.a", "points.1.repeat", "points.2.random.x.beta.0", "points.2.random.y"]
    assert [each.path for each in found] == paths
    columns = [each.location.column for each in found if each.location]
    assert columns == sorted(columns)
    assert len(set(columns)) == len(columns)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_max_parallel_is_at_least_one(value: str) -> None:
    text = parse_yaml(f"max_parallel: {value}\npoints: {{repeat: 2}}\n", "sweep.yaml")
    assert refused(lambda: Document(text, text.data).validate(Sweep)).path == "max_parallel"
