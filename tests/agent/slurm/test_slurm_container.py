"""Entry into a container by the runtimes of a node."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairway_agent.container import Runtime
from fairway_agent.slurm import allocation
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

IMAGE = "contoso.azurecr.io/train:1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns the folder of a run whose job has a container."""
    write(tmp_path, image=IMAGE, options=["--no-home"])
    (tmp_path / "target.json").write_text(json.dumps({"mounts": {"data": str(tmp_path)}}))
    return tmp_path


def write(folder: Path, **facts: Any) -> None:
    job = {"container": {"shm_size": None, "options": [], **facts}}
    (folder / "job.json").write_text(json.dumps(job))


@pytest.fixture(params=[True, False])
def has_pyxis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Returns True if srun's help has the plugin's options."""
    text = "--container-image=[USER@][REGISTRY#]IMAGE" if request.param else "--nodes=N"
    monkeypatch.setattr(commands, "run", lambda *_: text)
    return bool(request.param)


def test_slurm_container_prefers_pyxis_and_mounts_the_files_of_the_image_that_exist(
    run: Path, has_pyxis: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, absent = (run / name for name in ("microsoft", "nccl.conf", "absent"))
    one.mkdir()
    two.touch()
    monkeypatch.setattr(allocation, "IMAGE_FILES", [str(one), str(two), str(absent)])
    monkeypatch.setattr(allocation.shutil, "which", lambda name: f"/usr/bin/{name}")
    entry, bound = allocation.entry_of(run, "/data/code", [str(run)]), f"{one}:{one}:ro"
    if has_pyxis:
        assert entry.prefix == ()
        assert entry.step == (
            "--container-image=contoso.azurecr.io#train:1",
            f"--container-mounts={run}:{run},{bound},{two}:{two}:ro",
            "--container-workdir=/data/code",
            "--no-home",
        )
        assert entry.alone(["bash", "x.sh"])[0] == "srun"
    else:
        assert entry.step == ()
        assert entry.prefix[:2] == ("/usr/bin/apptainer", "exec")
        assert entry.prefix[-2:] == ("--no-home", f"docker://{IMAGE}")
        assert f"{run},{bound},{two}:{two}:ro " in " ".join(entry.prefix)
        assert entry.alone(["bash", "x.sh"])[-2:] == ["bash", "x.sh"]


@pytest.mark.parametrize("has_pyxis", [False], indirect=True)
@pytest.mark.parametrize("runtime", [None, "docker", "enroot"])
@pytest.mark.usefixtures("has_pyxis")
def test_slurm_container_without_pyxis_and_apptainer_uses_another_runtime(
    run: Path, monkeypatch: pytest.MonkeyPatch, runtime: str | None
) -> None:
    """The HPC image has Docker."""
    found = None if runtime is None else Runtime(runtime, f"/usr/bin/{runtime}")
    monkeypatch.setattr(allocation.shutil, "which", lambda _: None)
    monkeypatch.setattr(allocation, "find_runtime", lambda: found)
    if runtime is None:
        with pytest.raises(AgentError, match=r"none of docker, podman.*, nor Slurm's Pyxis"):
            allocation.entry_of(run, "/data/code", [])
    else:
        entry = allocation.entry_of(run, "/data/code", [])
        assert entry.step == ()
        assert entry.prefix[-2:] == ("fairway_agent.container", str(run))


@pytest.mark.usefixtures("has_pyxis")
def test_slurm_container_with_more_shared_memory_than_the_node_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation.shutil, "which", lambda name: f"/usr/bin/{name}")
    write(run, image=IMAGE, shm_size="999999g")
    with pytest.raises(AgentError, match="the job needs 999999g"):
        allocation.entry_of(run, "/data/code", [])


def test_slurm_container_entry_is_none_for_a_job_without_a_container(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"container": None}))
    assert allocation.entry_of(tmp_path, "/data/code", []) is None


def test_slurm_container_entry_arguments_are_written_unchanged(tmp_path: Path) -> None:
    entry = allocation.Entry(prefix=("a b", "c\nd", "$(e)"))
    entry.write(tmp_path)
    assert (tmp_path / allocation.PREFIX).read_bytes() == b"a b\0c\nd\0$(e)\0"
    assert (tmp_path / allocation.STEP_OPTIONS).read_bytes() == b""
