"""A parameter that is set and that nothing reads, most likely a misspelt one."""

import json
from pathlib import Path
from typing import Any

import pytest
from endings import ends
from running import RunFairway

JOB: dict[str, Any] = {
    "name": "job",
    "template": "plain",
    "command": "echo {{ params.epochs }}",
    "params": {"epochs": 30},
}
HERE = Path(__file__).resolve().parents[2]


def written(folder: Path, **fields: Any) -> str:
    (folder / "job.yaml").write_text(json.dumps({**JOB, **fields}, indent=1))
    return "job.yaml"


def points(*generators: Any) -> dict[str, Any]:
    return {"sweep": {"points": list(generators)}}


@pytest.mark.parametrize("command", [["submit", "--dry-run"], ["render"]])
def test_unused_param_is_refused_with_the_nearest_name(
    tmp_path: Path, here: RunFairway, command: list[str]
) -> None:
    job = written(tmp_path)
    code, out, err = here(*command, job, "-s", "params.epoch=2")
    assert (code, out) == (2, "")
    first, *shown, hint = err.splitlines()
    assert first == "command line:1:4: error: nothing reads `params.epoch` [unused-param]"
    assert shown == ["    1 | -s params.epoch=2", "      |    ^^^^^^^^^^^^"]
    assert hint.endswith("did you mean `params.epochs`?")
    assert not (tmp_path / ".fairway").exists()


def test_unused_param_of_a_sweep_is_reported_at_its_line(tmp_path: Path, here: RunFairway) -> None:
    job = written(tmp_path, **points({"grid": {"seed": [1, 2], "epochs": [1]}}))
    lines = (tmp_path / job).read_text().splitlines()
    [line] = [number for number, text in enumerate(lines, 1) if '"seed"' in text]
    said = "error: nothing reads `params.seed` [unused-param]"
    hint = "use it as {{ params.seed }}, or list it under `params:`"
    ends(here("submit", job, "--dry-run"), 2, f"job.yaml:{line}:", said, hint)
    step = {**JOB, **points({"grid": {"seed": [1], "epochs": [1]}})}
    named = json.dumps({"name": step.pop("name"), "steps": {"one": step}})
    (tmp_path / "steps.yaml").write_text(named)
    code, _, err = here("submit", "steps.yaml", "--dry-run")
    assert (code, err.split()[0]) == (2, f"steps.yaml:1:{named.index('seed')}:")
    job = written(tmp_path, **points({"grid": {"epochs": [1]}}))
    given = "sweep.points=[{grid: {epochs: [1], seed: [1]}}]"
    ends(here("submit", job, "--dry-run", "-s", given), 2, "command line:1:", said)
    (tmp_path / "points.py").write_text(
        "def of():\n    yield {'epochs': 1}\n    yield {'epoch': 2}\n"
    )
    job = written(tmp_path, **points({"python": "points:of"}))
    ends(here("submit", job, "--dry-run"), 2, "nothing reads `params.epoch` [unused-param]")


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({}, ["epochs=2"]),
        ({"params": {"epochs": 1, "label": "a"}}, ["label=b"]),
        ({"env": {"LR": "{{ params.lr }}"}}, ["lr=0.1"]),
        ({"command": "echo {{ params['lr'] }}"}, ["lr=0.1"]),
        ({"command": "{% for n, v in params | dictsort %}echo {{ n }}{% endfor %}"}, ["lr=0.1"]),
        # Reads in a branch not taken, in `finally`, and in other fields count too.
        ({"command": "echo {% if params.epochs > 9 %}{{ params.lr }}{% endif %}"}, ["lr=0.1"]),
        ({"command": "true", "finally": {"command": "echo {{ params.lr }}"}}, ["lr=0.1"]),
        ({"nodes": "{{ params.n }}", "setup": "echo {{ params.lr }}"}, ["n=1", "lr=0.1"]),
        ({"command": "echo {{ params.file }}", **points({"files": "*.yaml"})}, []),
        (points({"repeat": 2}), []),
    ],
)
def test_param_that_is_declared_or_read_may_be_set(
    tmp_path: Path, here: RunFairway, fields: dict[str, Any], params: list[str]
) -> None:
    words = [text for each in params for text in ("-s", f"params.{each}")]
    code, _, err = here("submit", written(tmp_path, **fields), "--dry-run", *words)
    assert (code, err) == (0, "")


def test_param_read_by_a_template_is_accepted_and_one_overridden_by_a_sweep_refused(
    tmp_path: Path, here: RunFairway
) -> None:
    local = {"name": "local", "mounts": {"data": str(tmp_path)}}
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [local]}))
    fields = {"inputs": {"images": "data:/"}, **points({"shards": {"input": "images", "of": 2}})}
    code, _, err = here("submit", written(tmp_path, **fields), "--dry-run")
    assert (code, err) == (0, "")
    job = written(tmp_path, template="notebook", command="a.ipynb", outputs={"notebook": {}})
    assert here("render", job, "-s", "params.new=1")[0] == 0
    folder = tmp_path / "job_templates"
    folder.mkdir()
    (folder / "own.sh.j2").write_text(
        "{# description: mine #}\n{% if nodes > 1 %}{% include 'own.sh.j2' %}{% endif %}\n"
        "{{ command }} {{ params.lr }}\n"
    )
    job = written(tmp_path, template="own")
    assert here("render", job, "-s", "params.lr=1")[0] == 0
    ends(here("render", job, "-s", "params.lr=1", "-s", "nodes=2"), 2, "recursion")
    job = written(tmp_path, **points({"grid": {"epochs": [1, 2]}}))
    said = "command line:1:4: error: `-s params.epochs` has no effect"
    done = here("submit", job, "--dry-run", "-s", "params.epochs=7")
    ends(done, 2, said, "[overridden-param]", "sweep.points")
    other = ("-s", "sweep.points=[{grid: {epochs: [7]}}]")
    assert here("submit", job, "--dry-run", *other)[0] == 0
    assert here("render", job, "-s", "params.epochs=7")[0] == 0


@pytest.mark.parametrize(
    "text", ["{{ params.lr }}", "{{ job.params.lr }}", '{% include "_part.sh.j2" %}']
)
def test_param_read_by_a_custom_template_or_its_parts_is_accepted(
    tmp_path: Path, here: RunFairway, text: str
) -> None:
    folder = tmp_path / "job_templates"
    folder.mkdir()
    (folder / "own.sh.j2").write_text(
        f"{{# description: mine #}}\necho {text}\n{{{{ command }}}}\n"
    )
    (folder / "_part.sh.j2").write_text("{{ params.lr }}\n")
    job = written(tmp_path, template="own")
    assert here("render", job, "-s", "params.lr=0.1")[0] == 0
    assert here("render", job, "-s", "params.rl=0.1", "-s", "params.lr=1")[0] == 2


@pytest.mark.integration
def test_unused_param_is_in_no_example_job(here: RunFairway) -> None:
    jobs = [*HERE.glob("examples/*/*.yaml")]
    assert len(jobs) > 8
    for job in jobs:
        _, _, err = here("submit", str(job), "--dry-run", "--yes")
        assert "unused-param" not in err
