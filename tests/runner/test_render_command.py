"""`fairway render`: the script of a job, alone or with what it is of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunFairway

JOB = "name: a\ntemplate: plain\ncommand: echo {{ params.n }} ü\nparams: {n: 1}\n"


def test_json_holds_the_script_that_is_printed_without(tmp_path: Path, here: RunFairway) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    code, script, _ = here("render", "job.yaml", "-s", "params.n=7")
    assert code == 0
    assert "echo 7 ü" in script
    code, out, err = here("render", "job.yaml", "-s", "params.n=7", "--json")
    assert (code, err) == (0, "")
    facts = {"name": "a", "target": "local", "template": "plain", "script": script}
    assert json.loads(out) == facts
    assert not (tmp_path / ".fairway").exists()


def test_render_command_with_a_mistake_prints_no_json(tmp_path: Path, here: RunFairway) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    code, out, err = here("render", "job.yaml", "-s", "template=none", "--json")
    assert (code, out) == (2, "")
    assert "there is no template `none`" in err
