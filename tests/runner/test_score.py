"""The template `score`: each task of a sweep gets its share of an input's files."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import finished

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.launcher import render_launcher

pytestmark = pytest.mark.integration

COMMAND = 'while read -r path; do echo "${path##*/}"; done <"$FAIRWAY_FILES"'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of files that serves as an input."""
    folder = tmp_path / "my data"
    for name in ("b", "a c", "deep/d", "e", "deep/f", ".hidden", ".git/x", "deep/.x/y"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


def write(folder: Path, of: int, **fields: Any) -> Any:
    """Writes a job file that scores the input `data`, and loads it."""
    job = {"name": "score", "template": "score", "command": COMMAND}
    job |= {"inputs": {"data": "data:/x", "model": "data:/y"}}
    job |= {"sweep": {"points": {"shards": {"input": "data", "of": of}}}, **fields}
    (folder / "job.yaml").write_text(json.dumps(job, indent=1))
    return load_job(folder / "job.yaml")


def shares(
    folder: Path, data: Path, of: int, shared: Path | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Runs each task of the sweep and returns the results."""
    done = []
    for number, task in enumerate(write(folder, of).tasks()):
        script = folder / "launch.sh"
        script.write_text(render_launcher(task, task.resolve(Target.local()), Target.local()))
        contract = {"FAIRWAY_INPUT_DATA": str(data), "FAIRWAY_TASK": str(number)}
        contract |= {"FAIRWAY_SHARED_DIR": str(shared or folder), "PATH": os.environ["PATH"]}
        done.append(finished(["bash", script], env=contract))
    return done


def test_score_gives_each_file_to_exactly_one_task(tmp_path: Path, data: Path) -> None:
    done = shares(tmp_path, data, 3)
    assert [each.returncode for each in done] == [0, 0, 0]
    said = [each.stdout.splitlines() for each in done]
    assert said == [
        ["fairway: share 0 of 3 has 2 of the 5 files", "a c", "f"],
        ["fairway: share 1 of 3 has 2 of the 5 files", "b", "e"],
        ["fairway: share 2 of 3 has 1 of the 5 files", "d"],
    ]
    done = shares(tmp_path, data, 7)
    assert [each.returncode for each in done] == [0] * 7
    assert done[4].stdout == "fairway: share 4 of 7 has 1 of the 5 files\ne\n"
    assert done[6].stdout == "fairway: share 6 of 7 has none of the 5 files\n"
    for name in ("it's $(id)", "a\\tb"):
        data, shared = data.rename(tmp_path / name), tmp_path / f"{name} shared"
        shared.mkdir()
        [done] = shares(tmp_path, data, 1, shared)
        assert "has 5 of the 5 files" in done.stdout, done.stderr


def test_score_fails_for_an_input_without_files_or_with_line_breaks_in_names(
    tmp_path: Path, data: Path
) -> None:
    (tmp_path / "empty").mkdir()
    [done] = shares(tmp_path, tmp_path / "empty", 1)
    assert (done.returncode, done.stderr) == (1, "fairway: the input data has no file\n")
    [done] = shares(tmp_path, tmp_path / "gone", 1)
    assert done.returncode != 0
    assert "gone" in done.stderr
    (data / "a\nb").write_text("")
    [done] = shares(tmp_path, data, 1)
    assert done.returncode == 1
    assert done.stderr == "fairway: a file of the input data has a line break in its name\n"


def test_score_shares_of_an_unknown_input_are_refused(tmp_path: Path) -> None:
    job_file = write(tmp_path, 2, inputs={"date": "data:/x"})
    finding = refused(lambda: list(job_file.tasks()))
    assert finding.message == "`sweep.points.shards.input`: the job has no input `data`"
    assert finding.hint == "did you mean `date`?"
    assert '"input": "data"' in finding.location.text
    with pytest.raises(UserError) as caught:
        list(write(tmp_path, 2, inputs={}).tasks())
    assert caught.value.findings[0].hint == "add it: inputs: {data: MOUNT:PATH}"
