"""Jobs are checked before they start: errors stop them, warnings are said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from fairway_cli.main import app
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.submission import prepare

if TYPE_CHECKING:
    from pathlib import Path

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
        ({"setup": "export PASSWORD='hunter22'"}, "setup"),
        ({"env": {"DB_PASSWORD": "bm90x"}}, "env.DB_PASSWORD"),
        ({"env": {"AWS_SECRET_ACCESS_KEY": "bm90AAbb11/" * 4}}, "env.AWS_SECRET_ACCESS_KEY"),
        ({"env": {"HF": "hf_bm90AAbb11CCdd22EEff33GG"}}, "env.HF"),
        ({"command": "./a --key " + "bm90+/" * 14 + "ab=="}, "command"),
        ({"params": {"api_key": "bm90-0123456789-abc"}}, "params.api_key"),
        ({"env": {"KEY": "AccountName=x;AccountKey=" + "a" * 86 + "=="}}, "env.KEY"),
    ],
)
def test_a_secret_is_refused_at_its_line_and_not_shown(
    tmp_path: Path, fields: dict[str, Any], path: str
) -> None:
    job_file = load_job(_write(tmp_path, **fields))
    with pytest.raises(UserError) as caught:
        prepare(job_file, Target.local(), RunStore(tmp_path))
    assert [(each.id, each.path) for each in caught.value.findings] == [("secret-in-job", path)]
    for finding in caught.value.findings:
        assert finding.location is not None
        line = job_file.document.text.source.splitlines()[finding.location.line - 1]
        assert line.startswith(path.partition(".")[0])
        assert finding.location.text == "(not shown)"
    assert "bm90" not in str(caught.value)


def test_what_a_job_may_say_is_no_secret(tmp_path: Path) -> None:
    env = {"TOKENIZERS_PARALLELISM": "false", "PGPASSWORD": "", "KEY": "value", "URL": "http://a/b"}
    env |= {
        "EOS_TOKEN": "<|endoftext|>",
        "HF_TOKEN": "$FROM_VAULT_0123456789",
        "MAX_TOKENS": "4096",
    }
    env |= {"MODEL": "sk-learn-pipelines-of-ours", "BOS_TOKEN": "begin-of-a-sentence"}
    file = _write(tmp_path, env=env, command='export PASSWORD="$(cat password)"; ./train --sig=1')
    assert prepare(load_job(file), Target.local(), RunStore(tmp_path)).warnings == []


def test_a_warning_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [SPOT]}))
    arguments = ["submit", "job.yaml", "--target", "nd", "--dry-run"]
    _write(tmp_path, nodes=4)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("job.yaml:4:8: warning: the end of one of 4 Spot nodes")
    assert "would start 1 task on nd" in done.stdout
    _write(tmp_path, nodes=4, retries=3, checkpoint={"signal": "TERM"})
    assert CliRunner().invoke(app, arguments).stderr == ""
    _write(tmp_path)  # one node
    assert CliRunner().invoke(app, arguments).stderr == ""


@pytest.mark.parametrize(
    ("image", "refused"),
    [
        ("nvidia/cuda:11.4.0-base", True),
        ("r.azurecr.io/t:pt2-cu118", False),  # the tag does not tell
        ("pytorch/pytorch:2.0-cuda11.8-cudnn8", False),
        ("pytorch/pytorch:2.4-cuda12.4-cudnn9", False),
    ],
)
def test_a_cuda_that_does_not_know_the_gpus_is_refused(
    tmp_path: Path, image: str, refused: bool
) -> None:
    target = Target.model_validate(
        {
            **SPOT,
            "engine": "batch",
            "ssh": None,
            "batch": {"endpoint": "https://b.westeurope.batch.azure.com", "pool": "p"},
        }
    )
    from fairway_core.checks import check_job

    job_file = load_job(_write(tmp_path, container={"image": image}))
    found = check_job(
        job_file.resolve(target).model_dump(exclude_unset=True), target, job_file.document
    )
    assert [finding.id for finding in found] == ["old-cuda"] * refused
    if refused:
        assert found[0].location is not None
        assert found[0].location.line == 4
        assert "11.8" in found[0].hint
