"""Messages about a run that has just been started, where little can be said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_cli.ui.progress import print_started, watch_to_the_end
from fairway_runner.runs.store import RunStore

if TYPE_CHECKING:
    from conftest import MakeRun

FULL = Path("/dev/full")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full"),
]


@pytest.mark.parametrize("words", [{}, {"quiet": True}, {"json_": True}])
def test_a_run_is_named_where_its_id_cannot_be_printed(
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: dict[str, bool],
) -> None:
    run = make_run("job-aaaaaa", [{"log": "loss 1\n"}])
    for say in (print_started, watch_to_the_end):
        descriptor = os.open(FULL, os.O_WRONLY)
        stream = os.fdopen(os.dup(descriptor), "w")
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(OSError, match="No space left"):
            say(run, **words)  # type: ignore[operator]
        monkeypatch.undo()
        os.close(descriptor)
        with pytest.raises(OSError, match="No space left"):
            stream.close()
        said = capsys.readouterr().err
        assert said.endswith("job-aaaaaa was started; see: fairway show job-aaaaaa\n")


def test_a_job_submitted_to_a_full_output_is_started_once_and_named(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("{name: once, command: 'true'}\n")
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fairway_cli.entry", "submit", "-q", "job.yaml"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    (folder,) = (each for each in (tmp_path / ".fairway/runs").iterdir() if each.name[0] != ".")
    run = RunStore(tmp_path / ".fairway").find(folder.name)
    run.wait()
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        f"{run.id} was started; see: fairway show {run.id}",
        "error: the output cannot be written: No space left on device",
    ]
    assert run.status.state == "succeeded"
