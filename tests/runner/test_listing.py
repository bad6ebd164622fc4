"""`files: {input: …}`: one task for each file that an input has at the submission."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from running import RunFairway

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.project_files import restricted_to
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import PreparedRun, prepare
from fairway_runner.submit.run_inputs import resolve_files
from fairway_runner.submit.submission import submit
from fairway_runner.submit.target_selection import prepare_for
from fairway_runner.targets.lookup import find_target

POOL = """\
name: pool
engine: batch
vm_size: Standard_D4s_v6
nodes: {min: 0, max: 2}
storage: {account_url: "https://nobody.invalid", containers: [datasets, outputs, code]}
batch: {endpoint: nobody.invalid, pool: pool, identity: /x}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose container `datasets` is a folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("images/b.jpg", "images/deep/a.jpg", "images/notes.txt", "images/.x.jpg", "c.jpg"):
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")
    pool = "\n    ".join(POOL.splitlines())
    local = f"{{name: local, mounts: {{datasets: {tmp_path}/data}}}}"
    (tmp_path / "fairway.yaml").write_text(f"targets:\n  - {local}\n  - {pool}\n")
    return tmp_path


def write(folder: Path, files: Any = None, **fields: Any) -> Path:
    job: dict[str, Any] = {
        "name": "images",
        "template": "plain",
        "command": 'cat "$FAIRWAY_INPUT_IMAGES"/{{ params.file }}',
        "inputs": {"images": {"from": "datasets:images/"}},
        "sweep": {"points": {"files": files or {"input": "images", "pattern": "**/*.jpg"}}},
    }
    file = folder / "job.yaml"
    file.write_text(json.dumps({**job, **fields}, indent=1))
    return file


def local() -> Target:
    return find_target("local")


def files_of(prepared: PreparedRun) -> list[Any]:
    lines = b"".join(prepared.lines["tasks.jsonl"]).splitlines()
    return [json.loads(line)["params"]["file"] for line in lines]


def test_sweep_over_files_makes_a_point_for_each_file(project: Path, here: RunFairway) -> None:
    write(project)
    points = [each["params"] for each in json.loads(here("sweep", "job.yaml", "--json")[1])]
    assert points == [
        {"file": "b.jpg", "name": "b.jpg", "stem": "b"},
        {"file": "deep/a.jpg", "name": "a.jpg", "stem": "a"},
    ]
    write(project, {"input": "images"})  # all files without a pattern
    points = [each["params"] for each in json.loads(here("sweep", "job.yaml", "--json")[1])]
    assert [each["file"] for each in points] == ["b.jpg", "deep/a.jpg", "notes.txt"]
    (project / "more").mkdir()
    (project / "more" / "z.jpg").touch()
    (project / "data/images/more").symlink_to("../../more")
    prepared = prepare(load_job(write(project)), local(), RunStore.here())
    assert files_of(prepared) == ["b.jpg", "deep/a.jpg", "more/z.jpg"]
    (project / "data/images/loop").symlink_to(".")
    finding = refused(lambda: prepare(load_job(write(project)), local(), RunStore.here()))
    assert finding.id == "bad-sweep"
    assert "data/images/loop" in finding.message


def test_sweep_over_files_keeps_the_list_of_its_submission(project: Path) -> None:
    """A retry runs the tasks of the first submission; a new run lists the files again."""
    file = write(project)
    store = RunStore.here()
    before = submit(prepare(load_job(file), local(), store, run_id="images-first"), store)
    before.wait()
    assert before.state == "succeeded", before.log_text()
    (project / "data/images/c.jpg").write_text("c\n")
    (project / "data/images/b.jpg").unlink()
    assert [task.params["file"] for task in before.tasks] == ["b.jpg", "deep/a.jpg"]
    assert before.tasks[1].log == "images/deep/a.jpg\n"
    after = prepare(load_job(file), local(), store)
    assert files_of(after) == ["c.jpg", "deep/a.jpg"]


def test_sweep_over_files_lists_templated_and_single_file_inputs(project: Path) -> None:
    inputs = {"images": {"from": "datasets:{{ params.set }}/"}}
    file = write(project, inputs=inputs, params={"set": "images/deep"})
    job = resolve_files(load_job(file), local())
    assert job.listed == {"images": ("a.jpg",)}
    file = write(project, inputs={"images": {"from": "datasets:c.jpg"}})
    assert resolve_files(load_job(file), local()).listed == {"images": ("c.jpg",)}
    job = load_job(write(project, sweep={"points": {"grid": {"files": [1, 2]}}}))
    assert resolve_files(job, local()) is job


def test_sweep_over_files_that_cannot_be_listed_warns_or_is_refused(
    project: Path, tmp_path: Path
) -> None:
    """Pages that check a job while the user types do not ask the target."""
    prepared = prepare(load_job(write(project)), find_target("pool"), RunStore.here(), asks=False)
    assert files_of(prepared) == ["**/*.jpg"]
    assert any("each file of the input `images`" in each.message for each in prepared.warnings)
    job, names = load_job(write(project)), ("pool", "local")
    finding = refused(lambda: prepare_for(job, names, RunStore.here(), copies=True))
    assert finding.id == "one-target"
    assert "lists the files of an input, which differ from target to target" in finding.message
    assert finding.location is not None
    job = load_job(write(project))
    outside = tmp_path / "elsewhere"
    shutil.copytree(project / "data", outside)
    (project / "code").mkdir()
    with restricted_to(project / "code"), pytest.raises(UserError) as caught:
        resolve_files(job, local())
    assert caught.value.findings[0].id == "missing-role"


IMAGES, INPUT = "datasets:images/", "sweep.points.files.input"
UNKNOWN = "the files of the input `images` are not known before the job runs"
NO_FILE = "`*.png` matches no file of the input `images`"


@pytest.mark.parametrize(
    ("files", "source", "path", "message"),
    [
        ({"input": "image"}, {"from": IMAGES}, INPUT, "the job has no input `image`"),
        ({"input": "images"}, "datasets:images", INPUT, UNKNOWN),
        ({"input": "images"}, {"from": "run", "run": "digits", "task": 0}, INPUT, UNKNOWN),
        ({"input": "images"}, {"best": {"run": "x"}}, INPUT, UNKNOWN),
        ({"input": "images", "pattern": "*.png"}, {"from": IMAGES}, INPUT[:-6], NO_FILE),
        ({"input": "images"}, {"from": "x:images/"}, "inputs.images.from", "no mount `x`"),
    ],
)
def test_sweep_over_files_of_an_unknown_input_or_without_match_is_refused(
    project: Path, files: Any, source: Any, path: str, message: str
) -> None:
    job = load_job(write(project, files, inputs={"images": source}))
    found = refused(lambda: prepare(job, local(), RunStore.here()))
    assert (found.path, message in found.message) == (path, True)
    assert found.location is not None
    assert found.hint
