"""What is said of mistakes in job files and command lines: what, where, and what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from fairway_cli.main import app
from fairway_core.findings import UserError
from fairway_runner.jobs.job_file import load_job
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_core.findings import Finding

# A line of a job file; the message; the text that the caret is under; what to type.
MISTAKES = [
    (
        "processes_per_node: gpu",
        "`processes_per_node`: `gpu` is not a number of ranks",
        "gpu",
        "write a number, or `processes_per_node: gpus` for a rank on each GPU",
    ),
    (
        "resources: {gpus: 8}",
        "unknown key `resources`",
        "resources",
        "GPUs come with the nodes of the target; `processes_per_node: gpus` runs a rank on each",
    ),
    (
        "image: pytorch:2",
        "unknown key `image`",
        "image",
        "write `container: {image: REGISTRY/NAME:TAG}`",
    ),
    ("script: train.sh", "unknown key `script`", "script", "`command: python train.py`"),
    (
        "sweep: {lr: [0.1, 0.2]}",
        "`sweep.lr`: `lr` belongs under `points:`",
        "[0.1, 0.2]",
        "write `sweep: {points: {grid: {lr: [0.1, 0.2]}}}`",
    ),
    (
        "sweep: {random: {count: 3, lr: {uniform: [0, 1]}}}",
        "`sweep.random`: `random` belongs under `points:`",
        "{count: 3, lr: {uniform: [0, 1]}}",
        "write `sweep: {points: {random: …}}`",
    ),
    (
        "sweep: {points: {random: {count: 3, lr: {uniform: {low: 0, high: 1}}}}}",
        "`sweep.points.random.lr.uniform`: expected a list, found a mapping",
        "{low: 0, high: 1}",
        "write the values in a list: `uniform: [0, 1]`",
    ),
    (
        "params: [lr]",
        "`params`: expected a mapping, found a list",
        "[lr]",
        "write each under its name: `params: {lr: …}`",
    ),
    (
        "outputs: [{id: model}]",
        "`outputs`: expected a mapping, found a list",
        "[{id: model}]",
        "write each under its name: `outputs: {model: {…}}`",
    ),
    (
        "after: other-run",
        "`after`: expected a list, found the text `other-run`",
        "other-run",
        "write a list, of one value too: `after: [other-run]`",
    ),
    (
        "nodes: 4 nodes",
        "`nodes`: expected a whole number, found the text `4 nodes`",
        "4 nodes",
        "write the number alone: `nodes: 4`",
    ),
    (
        "setup: echo ${{ inputs.words }}",
        "unknown name `inputs`",
        "{{ inputs.words }}",
        "a directory is $FAIRWAY_INPUT_WORDS in the shell; a value is {{ params.words }}",
    ),
    (
        "setup: echo {{ params.lr }} {{ params.ls }}",
        "unknown name `params.ls`: did you mean `params.lr`?",
        "{{ params.ls }}",
        "",
    ),
]


def _finding(folder: Path, line: str) -> Finding:
    file = folder / "job.yaml"
    params = "" if "params:" in line else "params: {lr: 1}\n"
    file.write_text(f"name: x\ncommand: echo\n{params}{line}\n")
    with pytest.raises(UserError) as caught:
        load_job(file).resolve(find_target("local"))
    (found,) = caught.value.findings
    return found


@pytest.mark.parametrize(("line", "message", "marked", "hint"), MISTAKES)
def test_a_mistake_in_a_job_file_is_answered(
    tmp_path: Path, line: str, message: str, marked: str, hint: str
) -> None:
    found = _finding(tmp_path, line)
    assert message in found.message
    assert hint in found.hint
    place = found.location
    assert place is not None
    assert place.text == line
    assert line[place.column - 1 : place.column - 1 + place.length] == marked


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["submit", "job.yaml", "--nodes", "3"], "-s nodes=VALUE"),
        (["render", "job.yaml", "--processes-per-node=3"], "-s processes_per_node=VALUE"),
        (["run", "job.yaml"], "type: fairway submit JOB"),
        (["ps"], "type: fairway list"),
        (["stop", "x"], "type: fairway cancel RUN"),
    ],
)
def test_what_other_programs_call_it_is_answered_with_what_to_type(
    words: list[str], hint: str
) -> None:
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UserError)
    assert done.exception.exit_code == 2
    (found,) = done.exception.findings
    assert hint in found.hint
