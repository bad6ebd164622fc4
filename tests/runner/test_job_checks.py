"""Checks of jobs before they start: errors stop a job, warnings are only printed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from running import RunFairway

from fairway_core.checks import check_job
from fairway_core.findings import Finding, UserError, format_finding
from fairway_core.target import Target
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import prepare

SIGNED = "https://lab.blob.core.windows.net/data?sv=2025-05-05&sig=bm90QVJlYWxPbmVBdEFsbA%3D"
SPOT = {
    "name": "nd",
    "engine": "ssh",
    "vm_size": "Standard_ND96isr_H100_v5",
    "nodes": {"min": 4, "max": 4},
    "spot": True,
    "ssh": {"host": "h", "user": "u", "shared": "/data/fairway"},
}


def _write(folder: Path, **fields: Any) -> Path:
    file = folder / "job.yaml"
    job = {"name": "a", "template": "plain", "command": "true", **fields}
    file.write_text("\n".join(f"{name}: {json.dumps(value)}" for name, value in job.items()))
    return file


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"env": {"DATA": SIGNED}}, "env.DATA"),
        ({"params": {"data": SIGNED}}, "params.data"),
        ({"command": f"curl '{SIGNED}'"}, "command"),
        ({"setup": f"curl '{SIGNED}'"}, "setup"),
        ({"setup": {"command": f"curl '{SIGNED}'"}}, "setup.command"),
        ({"finally": {"command": f"curl '{SIGNED}'"}}, "finally.command"),
        ({"setup": "export PASSWORD='hunter22'"}, "setup"),
        ({"env": {"DB_PASSWORD": "bm90x"}}, "env.DB_PASSWORD"),
        ({"env": {"AWS_SECRET_ACCESS_KEY": "bm90AAbb11/" * 4}}, "env.AWS_SECRET_ACCESS_KEY"),
        ({"env": {"HF": "hf_bm90AAbb11CCdd22EEff33GG"}}, "env.HF"),
        ({"env": {"GIT": "glpat-bm90AAbb11CCdd22EEff"}}, "env.GIT"),
        ({"command": "./a --key " + "bm90+/" * 14 + "ab=="}, "command"),
        ({"params": {"api_key": "bm90-0123456789-abc"}}, "params.api_key"),
        ({"env": {"KEY": "AccountName=x;AccountKey=" + "a" * 86 + "=="}}, "env.KEY"),
    ],
)
def test_job_check_refuses_a_secret_at_its_line_without_showing_it(
    tmp_path: Path, fields: dict[str, Any], path: str
) -> None:
    job_file = load_job(_write(tmp_path, **fields))
    with pytest.raises(UserError) as caught:
        prepare(job_file, Target.local(), RunStore(tmp_path))
    assert [(each.id, each.path) for each in caught.value.findings] == [("secret-in-job", path)]
    for finding in caught.value.findings:
        line = job_file.document.text.source.splitlines()[finding.location.line - 1]
        assert line.startswith(path.partition(".")[0])
        assert "(not shown)" in format_finding(finding)
    shown = "".join(map(format_finding, caught.value.findings)) + str(caught.value)
    assert not re.search("bm90|hunter22", shown)


def test_job_check_accepts_values_that_are_not_secrets(tmp_path: Path) -> None:
    env = {"TOKENIZERS_PARALLELISM": "false", "PGPASSWORD": "", "KEY": "value", "URL": "http://a/b"}
    env |= {
        "EOS_TOKEN": "<|endoftext|>",
        "HF_TOKEN": "$FROM_VAULT_0123456789",
        "MAX_TOKENS": "4096",
    }
    env |= {"MODEL": "sk-learn-pipelines-of-ours", "BOS_TOKEN": "begin-of-a-sentence"}
    file = _write(tmp_path, env=env, command='export PASSWORD="$(cat password)"; ./train --sig=1')
    assert prepare(load_job(file), Target.local(), RunStore(tmp_path)).warnings == []


def test_job_check_hints_at_the_syntax_for_variables_of_a_custom_template(tmp_path: Path) -> None:
    found = _checked(load_job(_write(tmp_path, command="ls $FAIRWAY_TASKS")))
    assert [each.hint for each in found] == [
        "did you mean `$FAIRWAY_TASK`?\nif your own template sets it, write `${FAIRWAY_TASKS:-}`"
    ]
    assert _checked(load_job(_write(tmp_path, command="ls ${FAIRWAY_TASKS:-}"))) == []


def test_job_check_warning_is_printed_and_does_not_stop_the_submission(
    tmp_path: Path, here: RunFairway
) -> None:
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [SPOT]}))
    arguments = ["submit", "job.yaml", "--target", "nd", "--dry-run"]
    _write(tmp_path, nodes=4)
    code, out, err = here(*arguments)
    assert code == 0, err
    assert err.startswith("job.yaml:4:8: warning: the loss of one of 4 Spot nodes")
    assert "would start 1 task on nd" in out
    for fields in ({"nodes": 4, "retries": 3, "checkpoint": {"signal": "TERM"}}, {"nodes": 1}):
        _write(tmp_path, **fields)
        assert here(*arguments)[2] == ""


def test_job_check_marks_the_line_of_a_long_command(tmp_path: Path) -> None:
    (file := tmp_path / "job.yaml").write_text(
        "name: a\ntemplate: plain\ncommand: |\n  ./train\n"
        "  cp best.pt $FAIRWAY_OUTPUT_MODLE/\noutputs: {model: {}}\n"
    )
    (found,) = _checked(load_job(file))
    where = found.location
    assert (where.line, where.column, where.length) == (5, 14, len("$FAIRWAY_OUTPUT_MODLE"))
    assert where.text == "  cp best.pt $FAIRWAY_OUTPUT_MODLE/"
    # A finding in a value from the command line or a template is located there.
    (found,) = _checked(load_job(file, ["command=ls $FAIRWAY_OUTPUT_MODLE"]))
    assert (found.location.file, found.location.line) == ("command line", 1)


@pytest.mark.parametrize(
    ("image", "refused"),
    [
        ("nvidia/cuda:11.4.0-base", True),
        ("r.azurecr.io/t:pt2-cu118", False),  # the tag does not name a CUDA version
        ("pytorch/pytorch:2.0-cuda11.8-cudnn8", False),
        ("pytorch/pytorch:2.4-cuda12.4-cudnn9", False),
    ],
)
def test_job_check_refuses_a_cuda_image_too_old_for_the_gpus(
    tmp_path: Path, image: str, refused: bool
) -> None:
    batch = {"endpoint": "https://b.westeurope.batch.azure.com", "pool": "p"}
    target = Target.model_validate({**SPOT, "engine": "batch", "ssh": None, "batch": batch})
    job_file = load_job(_write(tmp_path, container={"image": image}))
    found = _checked(job_file, target)
    assert [finding.id for finding in found] == ["old-cuda"] * refused
    if refused:
        assert found[0].location.line == 4
        assert "11.8" in found[0].hint


IN_AND_OUT = {"inputs": {"words": "data:/words"}, "outputs": {"model": {}}}


@pytest.mark.parametrize(
    ("fields", "name", "hint"),
    [
        ({"command": "cp a $FAIRWAY_OUTPUT_MODLE/"}, "OUTPUT_MODLE", "`$FAIRWAY_OUTPUT_MODEL`?"),
        ({"command": 'cp a "${FAIRWAY_OUTPUT_MODLE%/}"'}, "OUTPUT_MODLE", "_OUTPUT_MODEL`?"),
        ({"command": "bash -c 'cat $FAIRWAY_INPUT_WORD/*'"}, "INPUT_WORD", "_INPUT_WORDS`?"),
        # The name is an output's, not an input's; or INPUT or OUTPUT is misspelt.
        ({"command": "ls $FAIRWAY_INPUT_MODEL"}, "INPUT_MODEL", "`$FAIRWAY_OUTPUT_MODEL`?"),
        ({"command": "ls $FAIRWAY_OUPUT_MODEL"}, "OUPUT_MODEL", "`$FAIRWAY_OUTPUT_MODEL`?"),
        ({"command": "ls $FAIRWAY_OUTPUT"}, "OUTPUT", "`$FAIRWAY_OUTPUT_MODEL`?"),
        ({"command": "ls $FAIRWAY_OUTPUT_model"}, "OUTPUT_model", "`$FAIRWAY_OUTPUT_MODEL`?"),
        ({"command": "ls $FAIRWAY_OUTPUT_LOGS"}, "OUTPUT_LOGS", "add `outputs: {logs: {}}`"),
        ({"command": "ls $FAIRWAY_INPUT_QXZ"}, "INPUT_QXZ", "add `inputs: {qxz: MOUNT:PATH}`"),
        ({"command": "cp a $FAIRWAY_SCRATCHDIR/"}, "SCRATCHDIR", "`$FAIRWAY_SCRATCH_DIR`?"),
        ({"setup": "cp a $FAIRWAY_INPUT_WORTS/"}, "INPUT_WORTS", "`$FAIRWAY_INPUT_WORDS`?"),
        ({"setup": {"command": "ls $FAIRWAY_OUTPUT_QXZ"}}, "OUTPUT_QXZ", "add `outputs:"),
        # Outputs of the tasks are not outputs of `finally`; TASKS_DIR is only for `finally`.
        ({"finally": {"command": "ls $FAIRWAY_OUTPUT_MODEL"}}, "OUTPUT_MODEL", "add `outputs: {mo"),
        ({"command": "ls $FAIRWAY_TASKS_DIR"}, "TASKS_DIR", "did you mean"),
    ],
)
def test_job_check_refuses_an_unknown_fairway_variable_at_its_place(
    tmp_path: Path, fields: dict[str, Any], name: str, hint: str
) -> None:
    found = _checked(load_job(_write(tmp_path, **{**IN_AND_OUT, **fields})))
    assert [each.id for each in found] == ["unknown-variable"]
    assert f"`$FAIRWAY_{name}`" in found[0].message
    assert hint in found[0].hint
    place = found[0].location
    assert place.text[place.column - 1 :].startswith(("$FAIRWAY_" + name, "${FAIRWAY_" + name))


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "cp $FAIRWAY_INPUT_WORDS/a ${FAIRWAY_OUTPUT_MODEL}/b # not $FAIRWAY_OUTPUT_A"},
        {"command": 'cp a "${FAIRWAY_OUTPUT_LOGS:-/tmp}/b${FAIRWAY_INPUT_A+x}"'},
        {"command": "export FAIRWAY_OUTPUT_LOGS=/tmp; ls $FAIRWAY_OUTPUT_LOGS"},
        {"command": r"echo \$FAIRWAY_OUTPUT_LOGS ${!FAIRWAY_OUTPUT_@} $FAIRWAY_QXZ $FAIRWAYX"},
        {"command": "echo $FAIRWAY_NODE_RANK $FAIRWAY_MAIN_PORT $FAIRWAY_GPUS"},
        {"finally": {"command": "ls $FAIRWAY_TASKS_DIR/*/model $FAIRWAY_INPUT_WORDS"}},
        {"finally": {"command": "ls $FAIRWAY_OUTPUT_ALL", "outputs": {"all": {}}}},
        {"params": {"which": "words"}, "command": "ls $FAIRWAY_INPUT_{{ params.which | upper }}"},
    ],
)
def test_job_check_accepts_known_and_optional_fairway_variables(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    assert _checked(load_job(_write(tmp_path, **{**IN_AND_OUT, **fields}))) == []


@pytest.mark.parametrize(
    "text",
    [
        f"command: |\n  ./train\n  curl '{SIGNED}' >$FAIRWAY_OUTPUT_MODLE/x\n",
        f"command: ls $FAIRWAY_OUTPUT_MODLE '{SIGNED}'\n",
        "{command: ls $FAIRWAY_OUTPUT_MODLE, env: {DB_PASSWORD: bm90x}}",
    ],
)
def test_job_check_hides_a_secret_in_findings_of_other_checks(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    job_file = load_job(tmp_path / "job.yaml", ["name=a", "template=plain", "outputs.model={}"])
    found = _checked(job_file)
    assert sorted(each.id for each in found) == ["secret-in-job", "unknown-variable"]
    shown = "".join(map(format_finding, found))
    assert "(not shown)" in shown
    assert "bm90" not in shown


def test_job_check_knows_every_documented_variable(repository: Path, tmp_path: Path) -> None:
    table = (repository / "docs/job.md").read_text("utf-8").partition("## Variables")[2]
    names = set(re.findall(r"`(FAIRWAY_[A-Z_]+)`", table.partition("\n## ")[0]))
    assert len(names) > 15
    ordinary = names - {"FAIRWAY_TASKS_DIR", "FAIRWAY_INPUT_TRAIN"}
    command = " ".join(f"${name}" for name in sorted(ordinary))
    assert _checked(load_job(_write(tmp_path, command=f"echo {command}"))) == []


def _checked(job_file: JobFile, target: Target | None = None) -> list[Finding]:
    target = target or Target.local()
    facts = job_file.resolve(target).model_dump(exclude_unset=True, by_alias=True)
    return check_job(facts, target, job_file.document)


@pytest.mark.parametrize(
    ("fields", "assignments", "found"),
    [
        (
            "params: {a: 1.10, b: 1.5, c: 1e-4, d: '1.10', e: [1, 01]}",
            [],
            {"params.a", "params.e.1"},
        ),
        ("params: {a: 12345e78, b: 0x1f, c: -2}", [], {"params.a", "params.b"}),
        ("params: {}", ["params.a=77e3", "params.b=2e-5", 'params.c="77e3"'], {"params.a"}),
        (
            "sweep: {points: [grid: {a: [1.10, 2]}, random: {count: 02, a: {uniform: [0, 1]}}]}",
            [],
            {"sweep.points.0.grid.a.0"},
        ),
    ],
)
def test_job_check_warns_of_numbers_that_templates_render_differently(
    tmp_path: Path, fields: str, assignments: list[str], found: set[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        f"name: a\ntemplate: plain\ncommand: echo {{{{ params | length }}}}\n{fields}\n"
    )
    job_file = load_job(file, assignments)
    warnings = prepare(job_file, Target.local(), RunStore(tmp_path)).warnings
    assert {(each.id, each.path) for each in warnings} == {
        ("changed-number", path) for path in found
    }
    for each in warnings:
        written = each.location.text[each.location.column - 1 :][: each.location.length]
        assert f'"{written}"' in each.hint
