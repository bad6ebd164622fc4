"""The `sweep:` section: what it takes, and what it says about what it does not take."""

import json

import pytest

from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.job import Job
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


# What is written, the field at fault, words of the message, and of the way out.
REFUSED = [
    # the shape
    ("5", "points", "expected a list of generators", ""),
    ("text", "points", "found the text `text`", ""),
    ("[]", "points", "the list is empty", "grid"),
    ("{}", "points", "has one key, this has none", "grid, zip, combinations, permutations"),
    ("[{}]", "points.0", "has none", "random, repeat, files, python"),
    ("[[]]", "points.0", "expected a generator", ""),
    ("[grid]", "points.0", "found the text `grid`", ""),
    ("[{gird: {a: [1]}}]", "points.0.gird", "unknown key `gird`", "did you mean `grid`?"),
    ("[{nothing: 1}]", "points.0.nothing", "unknown key", "one of: combinations, files, grid"),
    ("{repeat: 1, grid: {a: [1]}}", "points.repeat", "`grid` and `repeat`", "keep one"),
    ("[{grid: }]", "points.0.grid", "`grid` has no value", "give it a value"),
    ("[{repeat: null}]", "points.0.repeat", "`repeat` has no value", ""),
    # grid and zip
    ("{grid: {}}", "points.grid", "names no parameter", "lr"),
    ("{grid: []}", "points.grid", "expected a mapping, found a list", ""),
    ("{grid: {a: []}}", "points.grid.a", "the list is empty", "at least one"),
    ("{grid: {a: 1}}", "points.grid.a", "a list of values or {start, stop, step}", ""),
    ("{grid: {a: null}}", "points.grid.a", "found nothing", "give it a value"),
    ("{grid: {a: [null]}}", "points.grid.a.0", "found nothing", ""),
    ("{grid: {a: [{b: 1}]}}", "points.grid.a.0", "found a mapping", ""),
    ("{grid: {a: [[[1]]]}}", "points.grid.a.0.0", "found a list", ""),
    ("{grid: {a-b: [1]}}", "points.grid.a-b", "`a-b` is not a name", "letters, digits"),
    ("{grid: {1a: [1]}}", "points.grid.1a", "`1a` is not a name", ""),
    ("{zip: {}}", "points.zip", "names no parameter", ""),
    ("{zip: {a: [1, 2], b: [1]}}", "points.zip.b", "`a` has 2 values and `b` has 1", "grid"),
    # ranges
    ("{grid: {a: {start: 0, stop: 1}}}", "points.grid.a.step", "is missing", "add `step:`"),
    ("{grid: {a: {start: 0, stop: 1, step: 0}}}", "points.grid.a.step", "a step must not be 0", ""),
    (
        "{grid: {a: {start: 0, stop: 1, step: 0.0}}}",
        "points.grid.a.step",
        "a step must not be 0",
        "",
    ),
    ("{grid: {a: {start: 1, stop: 1, step: 1}}}", "points.grid.a", "no value lies", "below"),
    ("{grid: {a: {start: 1, stop: 2, step: -1}}}", "points.grid.a", "no value lies", "above"),
    ("{grid: {a: {start: 0, stop: 1, step: 1.0e-9}}}", "points.grid.a.step", "more than", "larg"),
    ("{grid: {a: {start: 0, stop: 1e308, step: 1e-308}}}", "points.grid.a.step", "more", ""),
    ("{grid: {a: {start: a, stop: 1, step: 1}}}", "points.grid.a.start", "a number", ""),
    ("{grid: {a: {start: true, stop: 1, step: 1}}}", "points.grid.a.start", "`true`", ""),
    (
        "{grid: {a: {start: 0, stop: 1, step: 1, end: 1}}}",
        "points.grid.a.end",
        "unknown key",
        "stop",
    ),
    # combinations and permutations
    ("{combinations: {a: [1, 2]}}", "points.combinations.length", "is missing", ""),
    ("{combinations: {length: 1}}", "points.combinations", "names no parameter", "pair"),
    ("{combinations: {a: [1], b: [1], length: 1}}", "points.combinations.b", "two", "one of"),
    ("{combinations: {a: [1], length: 2}}", "points.combinations.length", "1 values", "replac"),
    ("{combinations: {a: [1], length: 0}}", "points.combinations.length", "at least 1", ""),
    ("{combinations: {a: [1], length: 1001}}", "points.combinations.length", "at most", ""),
    ("{combinations: {a: [[1]], length: 1}}", "points.combinations.a.0", "found a list", ""),
    (
        "{combinations: {a: [1], length: 1, replacement: 1}}",
        "points.combinations.replacement",
        "true",
        "",
    ),
    ("{permutations: {a: [1, 2], length: 3}}", "points.permutations.length", "2 values", "small"),
    ("{permutations: {a: [], length: 1}}", "points.permutations.a", "is empty", ""),
    ("{permutations: {a-: [1], length: 1}}", "points.permutations.a-", "not a name", ""),
    # random
    ("{random: {a: {uniform: [0, 1]}}}", "points.random.count", "is missing", "add"),
    ("{random: {count: 3}}", "points.random", "names no parameter", "loguniform"),
    ("{random: {count: 0, a: {uniform: [0, 1]}}}", "points.random.count", "at least 1", ""),
    ("{random: {count: 1, seed: -1, a: {uniform: [0, 1]}}}", "points.random.seed", "least 0", ""),
    ("{random: {count: 1, seed: 1.5, a: {uniform: [0, 1]}}}", "points.random.seed", "whole", ""),
    ("{random: {count: 1, seed: x, a: {uniform: [0, 1]}}}", "points.random.seed", "whole", ""),
    (
        "{random: {count: 1, seed: 18446744073709551616, a: {uniform: [0, 1]}}}",
        "points.random.seed",
        "below 18446744073709551616",
        "",
    ),
    ("{random: {count: 1, a b: {uniform: [0, 1]}}}", "points.random.a b", "not a name", ""),
    # repeat, files, python
    ("{repeat: 0}", "points.repeat", "at least 1", ""),
    ("{repeat: many}", "points.repeat", "whole number", ""),
    ("{repeat: 1.0}", "points.repeat", "whole number", ""),
    ("{shards: 4}", "points.shards", "a mapping", ""),
    ("{shards: {of: 4}}", "points.shards.input", "is missing", "add `input:`"),
    ("{shards: {input: a, of: 0}}", "points.shards.of", "at least 1", ""),
    ("{shards: {input: a b, of: 1}}", "points.shards.input", "not a name", ""),
    ("{shards: {input: a, of: 100001}}", "points.shards", "at most 100,000", "split"),
    ("{files: ''}", "points.files", "names no file", "data/*.csv"),
    ("{files: ./}", "points.files", "names no file", ""),
    ("{files: ../x.csv}", "points.files", "leads out", "absolute"),
    ("{files: a/../../x.csv}", "points.files", "leads out", "absolute"),
    ("{files: [a, b]}", "points.files", "a pattern such as data/*.csv, or {input: NAME}", ""),
    ("{files: {pattern: x}}", "points.files.input", "missing", ""),
    ("{files: {input: x, pattern: /y}}", "points.files.pattern", "begins with `/`", "leave it out"),
    ("{files: {input: x, pattern: ../y}}", "points.files.pattern", "leads out", ""),
    ("{python: points}", "points.python", "does not name a function", "module:function"),
    ("{python: 'a-b:f'}", "points.python", "does not name a function", ""),
    ("{python: 'a:f()'}", "points.python", "does not name a function", ""),
    ("{python: '.a:f'}", "points.python", "does not name a function", ""),
    # too many
    ("{repeat: 100001}", "points.repeat", "100,001 points: at most 100,000", "split"),
    ("[{repeat: 60000}, {repeat: 50000}]", "points.1.repeat", "110,000 points", ""),
    (
        "{grid: {a: &k {start: 0, stop: 99999, step: 1}, b: *k, c: *k, d: *k, e: *k}}",
        "points.grid",
        "more than 10^15 points",
        "",
    ),
    (
        "{combinations: {a: {start: 0, stop: 50000, step: 1}, length: 900}}",
        "points.combinations",
        "10^15",
        "",
    ),
    (
        "{permutations: {a: {start: 0, stop: 9, step: 1}, length: 9}}",
        "points.permutations",
        "362,880",
        "",
    ),
]


@pytest.mark.parametrize(("points", "path", "message", "hint"), REFUSED)
def test_refuses(points: str, path: str, message: str, hint: str) -> None:
    (finding,) = findings(points)
    assert finding.path == path
    assert message in finding.message
    assert hint in finding.hint


# A distribution, the place of its fault below it, and words of the message.
DISTRIBUTIONS = [
    ("3", "", "expected a distribution such as {uniform: [0, 1]}, found the number 3"),
    ("[1, 2]", "", "found a list"),
    ("{}", "", "a distribution has one key, this has none"),
    ("{uniform: [0, 1], gauss: [0, 1]}", ".gauss", "this has `uniform` and `gauss`"),
    ("{uniform: null}", ".uniform", "has no value"),
    ("{uniform: 3}", ".uniform", "expected a list, found the number 3"),
    ("{uniform: [0]}", ".uniform", "expected [low, high], found a list of 1"),
    ("{uniform: []}", ".uniform", "found a list of 0"),
    ("{uniform: [0, 1, 2]}", ".uniform", "found a list of 3"),
    ("{uniform: [1, 0]}", ".uniform", "low is 1.0, above high, which is 0.0"),
    ("{uniform: [a, 1]}", ".uniform.0", "expected a number"),
    ("{uniform: [true, 1]}", ".uniform.0", "expected a number, found `true`"),
    ("{integer: [2, 2]}", ".integer", "no whole number from 2 up to but not 2"),
    ("{integer: [3, 2]}", ".integer", "no whole number"),
    ("{integer: [0.5, 2]}", ".integer.0", "expected a whole number"),
    ("{loguniform: [0, 1]}", ".loguniform.0", "low is 0.0: it must be above 0"),
    ("{loguniform: [-1, 1]}", ".loguniform.0", "above 0"),
    ("{loguniform: [2, 1]}", ".loguniform", "above high"),
    ("{triangular: [0, 1]}", ".triangular", "expected [low, high, mode]"),
    ("{triangular: [0, 1, 2]}", ".triangular", "mode is 2.0, above high"),
    ("{triangular: [0, 1, -1]}", ".triangular", "low is 0.0, above mode"),
    ("{beta: [0, 1]}", ".beta.0", "alpha is 0.0"),
    ("{gamma: [1, -1]}", ".gamma.1", "beta is -1.0"),
    ("{weibull: [1, 0]}", ".weibull.1", "beta is 0.0"),
    ("{exponential: [0]}", ".exponential.0", "lambda is 0.0"),
    ("{exponential: [1, 2]}", ".exponential", "expected [lambda]"),
    ("{gauss: [0, 0]}", ".gauss.1", "sigma is 0.0"),
    ("{lognormal: [0, -2]}", ".lognormal.1", "sigma is -2.0"),
    ("{pareto: [0]}", ".pareto.0", "alpha is 0.0"),
    ("{choice: []}", ".choice", "the list is empty"),
    ("{choice: [null]}", ".choice.0", "found nothing"),
    ("{choice: sgd}", ".choice", "expected a list"),
]


@pytest.mark.parametrize(("distribution", "place", "message"), DISTRIBUTIONS)
def test_refuses_the_distribution(distribution: str, place: str, message: str) -> None:
    (finding,) = findings(f"[{{random: {{count: 1, x: {distribution}}}}}]")
    assert finding.path == f"points.0.random.x{place}"
    assert message in finding.message


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


def test_a_range_beyond_floats_is_refused() -> None:
    text = parse_yaml("points: {}\n", "sweep.yaml")
    axis = {"start": 0.5, "stop": 10**400, "step": 10**399}
    with pytest.raises(UserError, match="too large") as caught:
        Document(text, {"points": {"grid": {"a": axis}}}).validate(Sweep)
    assert caught.value.findings[0].path == "points.grid.a.stop"


def test_a_parameter_cannot_be_named_twice() -> None:
    (finding,) = findings("{grid: {lr: [1], lr: [2]}}")
    assert finding.id == "duplicate-key"


def test_each_fault_has_a_finding_of_its_own() -> None:
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
    with pytest.raises(UserError) as caught:
        Document(text, text.data).validate(Sweep)
    assert caught.value.findings[0].path == "max_parallel"


def test_points_are_required() -> None:
    text = parse_yaml("max_parallel: 2\n", "sweep.yaml")
    with pytest.raises(UserError, match="`points` is missing"):
        Document(text, text.data).validate(Sweep)


def test_editors_get_a_schema_that_knows_every_generator() -> None:
    schema = Job.model_json_schema()
    generators = schema["$defs"]["Generator"]
    assert set(generators["properties"]) > {"grid", "zip", "random", "repeat", "files", "python"}
    assert generators["additionalProperties"] is False
    assert json.dumps(schema["$defs"]["Random"]["additionalProperties"]).count("Distribution") == 1
