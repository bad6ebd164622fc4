"""The scripts that templates make, whatever the job's values are: sound, and free of findings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

TEMPLATES = ["openmpi", "torchrun"]
NASTY = (
    'it\'s "quoted"\n$(touch pwned) `touch pwned` ${HOME} \\ * ~ # ; & | {{ name }} é🚀 \x1b[31m'
)


def render(folder: Path, template: str, **fields: object) -> str:
    """What `fairway render` prints."""
    job = folder / "job.yaml"
    job.write_text(json.dumps({"name": "job", "template": template, **fields}))
    program = Path(sys.executable).with_name("fairway")
    run = subprocess.run(
        [program, "render", job], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert [path.name for path in folder.iterdir()] == ["job.yaml"]
    return run.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_scripts_of_values_that_need_quotes_are_sound(tmp_path: Path, template: str) -> None:
    fields: dict[str, object] = {"command": "python train.py {{ params.x }} 'a'", "nodes": 2}
    fields["params"] = {"x": NASTY}
    fields["env"] = {"GREETING": NASTY.replace("{{ name }}", ""), "items": "a"}
    fields["outputs"] = {"model": {}}
    script = render(tmp_path, template, **fields)
    assert script.startswith("#!/usr/bin/env bash\n")
    assert subprocess.run(["bash", "-n"], input=script.encode()).returncode == 0
    # SC2016 says that text in single quotes is left as it is, which is what quoting is for.
    shellcheck = Path(sys.executable).with_name("shellcheck")
    checked = subprocess.run(
        [shellcheck, "--shell=bash", "--exclude=SC2016", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_a_template_of_the_jobs_own_goes_first(tmp_path: Path) -> None:
    (tmp_path / "job_templates").mkdir()
    own = tmp_path / "job_templates" / "openmpi.sh.j2"
    own.write_text("{# description: mine #}\necho mine {{ command }}\n")
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({"name": "job", "command": "a b"}))
    program = Path(sys.executable).with_name("fairway")
    run = subprocess.run([program, "render", job], cwd=tmp_path, capture_output=True, text=True)
    assert run.stdout.strip() == "echo mine 'a b'"
