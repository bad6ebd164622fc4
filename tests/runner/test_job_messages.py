"""What is said of mistakes in job files and command lines: what, where, and what to type."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from fairway_cli.main import app
from fairway_core.findings import UserError
from fairway_runner.jobs.job_file import load_job
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun, RunFairway

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import RunStore

# A line of a job file; the message; the text that the caret is under; what to type.
MISTAKES = [
    (
        "gpus: 0",
        "`gpus`",
        "0",
        "",
    ),
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
        "GPUs come with the nodes of the target; `gpus: 1` takes one of a node",
    ),
    (
        "image: pytorch:2",
        "unknown key `image`",
        "image",
        "write `container: {image: REGISTRY/NAME:TAG}`",
    ),
    ("max_cost: 0", "`max_cost`: expected a number above 0, found the number 0", "0", ""),
    (
        "patience: 30m",
        "unknown key `patience`",
        "patience",
        "write it under target: `target: {in_order: [FIRST, SECOND], patience: 30m}`",
    ),
    (
        "mounts: [data]",
        "unknown key `mounts`",
        "mounts",
        "name what it reads as `inputs: {data: MOUNT:PATH}`",
    ),
    (
        "outputs: {core: {when: failure, required: true}}",
        "`outputs.core.required`: a task cannot fail for an output that is kept only when it has",
        "true",
        "leave `required` out, or set `when: success`",
    ),
    ("script: train.sh", "unknown key `script`", "script", "`command: python train.py`"),
    (
        "sweep: {lr: [0.1, 0.2, 0.3, 0.4]}",
        "`sweep.lr`: `lr` belongs under `points:`",
        "[0.1, 0.2, 0.3, 0.4]",
        "write `sweep: {points: {grid: {lr: [0.1, 0.2, 0.3, 0.4]}}}`",
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
        "finally: ls",
        "`finally`: expected a mapping, found the text `ls`",
        "ls",
        "write `finally: {command: ls}`",
    ),
    (
        "container: pytorch",
        "`container`: expected a mapping, found the text `pytorch`",
        "pytorch",
        "write `container: {image: pytorch}`",
    ),
    (
        "retry: 3",
        "`retry`: expected a mapping, found the number 3",
        "3",
        "write `retry: {error: 3}`",
    ),
    (
        "checkpoint: true",
        "`checkpoint`: expected a mapping, found `true`",
        "true",
        "write `checkpoint: {directory: …}`",
    ),
    (
        "retries: {node: 3}",
        "`retries`: this is one number, of failures of the task itself",
        "{node: 3}",
        "write `retries: 3`; by their cause it is `retry: {node: 3}`",
    ),
    (
        "retry: {spot: 1}",
        "unknown key `spot`",
        "spot",
        "nodes that are taken away with notice are `retry: {preemption: 3}`",
    ),
    ("retry: {lost: 1}", "unknown key `lost`", "lost", "`retry: {node: 3}`"),
    ("retry: {attempts: 1}", "unknown key `attempts`", "attempts", "`retries: 3`"),
    ("retry: {nod: 1}", "unknown key `nod`", "nod", "did you mean `node`?"),
    (
        "gpus_per_node: 8",
        "unknown key `gpus_per_node`",
        "gpus_per_node",
        "nodes come with all their GPUs; a rank on each is `processes_per_node: gpus`",
    ),
    (
        "timeout: 30",
        "`timeout`: `30` has no unit",
        "30",
        "write 30s, 30m or 30h",
    ),
    (
        "max_duration: 1209600",
        "`max_duration`: `1209600` has no unit",
        "1209600",
        "write 1209600s or 1209600m",
    ),
    ("timeout: 4000000000", "has no unit", "4000000000", "write 36500d or less"),
    (
        "idle_gpu: {below: 5, for: 0.5}",
        "`idle_gpu.for`: `0.5` has no unit",
        "0.5",
        "write 0.5s, 0.5m or 0.5h",
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

# What is wrong in a job file, and what is said of it.
WRONG = [
    ("max_cost: 20", "the price of a node of `local` is not known"),
    ("metrics: {loss: loss}", "`loss` has 0 groups where it needs one"),
    ("container: {image: 'a b'}", "`a b` is not a container image"),
    ("container: {image: 'Train:1'}", "`Train:1` is not a container image"),
    ("outputs: {m: {pattern: ../x}}", "`../x` leaves the folder of the job's outputs"),
    ("outputs: {m: {pattern: [a, ../x]}}", "`../x` leaves the folder of the job's outputs"),
    ("outputs: {m: {pattern: m/**.npz}}", "`m/**.npz` is not a pattern of files"),
    ("outputs: {m: {pattern: [a, m/b**]}}", "`m/b**` is not a pattern of files"),
    ("outputs: {m: {pattern: ./}}", "`./` names no file"),
    ("outputs: {m: {pattern: ['']}}", "`` names no file"),
    ("outputs: {m: {pattern: []}}", "the list is empty"),
    ("outputs: {m: {exclude: [/x]}}", "`/x` names nothing in the folder of the job's outputs"),
    ("outputs: {m: {exclude: '*.tmp'}}", "a list"),
    ("inputs: {w: {from: 'datasets:w', to: 'data:/x'}}", "only an input with `stage: shared` has"),
    ("sweep: {points: {grid: {lr: {start: 1, stop: 2, step: 0}}}}", "a step must not be 0"),
    (
        "sweep: {points: {grid: {lr: {start: 2, stop: 1, step: 1}}}}",
        "no value lies between 2 and 1 in steps of 1",
    ),
    (
        "sweep: {points: {grid: {lr: {start: 0, stop: 1, step: 0.0000001}}}}",
        "values lie between start and stop",
    ),
    (
        "sweep: {points: {combinations: {a: [1, 2], length: 3}}}",
        "`length` is 3, but `a` has 2 values",
    ),
    (
        "sweep: {points: {combinations: {a: [1, 2], b: [1], length: 1}}}",
        "it names two parameters, `a` and `b`",
    ),
    ("sweep: {points: {files: ''}}", "the pattern names no file"),
    ("code: {path: nowhere}", "nowhere is not a folder"),
    ("command: ''", "the command is empty"),
    ("env: {FAIRWAY_X: a}", "`FAIRWAY_X` is Fairway's own"),
    ("secrets: {X: abc}", "this does not name the source of a secret"),
]

# A command line, and what is said of it.
COMMANDS = [
    (["list", "--state", "runing"], "`runing` is not a state of a run"),
    (["submit"], "no job is given"),
    (["show", "nothing"], "there is no run `nothing`"),
    (["cost", "demo", "--offline", "--hours-per-day", "30"], "--hours-per-day 30: a day has 24"),
    (["review", "--markdown", "--json", "x.json"], "--markdown and --json cannot be combined"),
    (["cost", "demo", "--offline", "--region", "South US"], "Azure has no region `South US`"),
    (["cost", "demo", "--offline", "--region", "nowhere"], "--region: Azure has no region"),
    (["cost", "--runs", "--region", "eastu"], "did you mean `eastus`?"),
    (["sizes", "--gpu", "X9000"], "no size has the GPU `X9000`"),
    (["logs", "done-aaaaaa", "--rank", "7"], "done-aaaaaa has no rank 7"),
    (["logs", "done-aaaaaa", "--node", "7"], "done-aaaaaa has no node 7"),
    (["logs", "done-aaaaaa", "--task", "7"], "has no task 7"),
    (["tunnel", "done-aaaaaa", "6006"], "has ended: nothing listens there any more"),
    (
        ["schedule", "create", "job.yaml", "--target", "local"],
        "let cron or a pipeline start it: fairway submit JOB --target NAME",
    ),
    (["pool", "resize", "local", "3"], "it is the machine that you are on"),
    (["best", "done-aaaaaa", "-m", "lost", "--min"], "has no metric `lost`"),
    (["best", "done-aaaaaa", "-m", "loss", "--min"], "that runs or succeeded has printed `loss`"),
    (["retry", "done-aaaaaa"], "every task of done-aaaaaa succeeded"),
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
    ("field", "path"),
    [
        ("command: {}", "command"),
        ("command: echo\nsetup: {}", "setup"),
        ("command: echo\nsetup: {{command: echo, release: {}}}", "setup.release"),
        ("command: echo\nfinally: {{command: {}}}", "finally.command"),
        ("command: echo\nenv: {{A: {}}}", "env.A"),
    ],
)
def test_a_length_in_a_text_of_a_job_is_kept_and_a_comment_refused(
    tmp_path: Path, field: str, path: str
) -> None:
    file, length = tmp_path / "job.yaml", "s=a#; echo ${#s} ${s%#}"
    file.write_text(f"name: x\n{field.format(json.dumps(length))}\n")
    assert length in repr(load_job(file).resolve(find_target("local")))
    file.write_text(f"name: x\n{field.format(json.dumps('echo {# a #}'))}\n")
    with pytest.raises(UserError) as caught:
        load_job(file).resolve(find_target("local"))
    (found,) = caught.value.findings
    assert (found.id, found.path) == ("bad-template", path)
    assert found.location is not None
    assert found.location.line == file.read_text().count("\n")


@pytest.mark.parametrize("names", ["", "local,", ",local", "local,,local"])
def test_a_name_that_is_missing_among_targets(
    tmp_path: Path, fairway: RunFairway, names: str
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\ncommand: echo\n")
    code, _, err = fairway(tmp_path, "submit", "job.yaml", "--dry-run", "--target", names)
    assert code == 2
    assert f"--target: a name is missing in `{names}`" in err
    code, out, _ = fairway(tmp_path, "submit", "job.yaml", "--dry-run", "-t", "local, local")
    assert (code, "it would start 1 task on local" in out) == (0, True)


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_a_job_may_not_say_is_named(
    tmp_path: Path, fairway: RunFairway, line: str, said: str
) -> None:
    command = "" if line.startswith("command:") else "command: echo\n"
    (tmp_path / "job.yaml").write_text(f"name: x\n{command}{line}\n")
    code, _, err = fairway(tmp_path, "submit", "job.yaml", "--dry-run")
    assert code == 2
    assert said in err
    assert re.match(r"job\.yaml:[23]:[0-9]+: error: ", err)


@pytest.mark.parametrize(("words", "said"), COMMANDS, ids=[said for _, said in COMMANDS])
def test_what_a_command_line_may_not_say_is_named(
    fairway: RunFairway, make_run: MakeRun, store: RunStore, words: list[str], said: str
) -> None:
    make_run("done-aaaaaa", [{"log": "nothing"}], metrics={"loss": "loss=([0-9])"})
    code, _, err = fairway(store.base.parent, *words)
    assert code == 2
    assert said in err


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
