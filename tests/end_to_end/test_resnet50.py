"""The example `examples/resnet50`: its program and its jobs on this machine's CPUs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from waiting import PATIENCE

pytestmark = pytest.mark.nightly

# Small enough for a CPU; one thread, since two processes and other tests share the cores.
TOY = ("--depth=18", "--width=8", "--image-size=32", "--classes=10", "--batch-size=4")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def train(folder: Path, *arguments: str, **fairway: Path) -> subprocess.Popen[str]:
    """Starts a training process without a launcher; its output is in pipes."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("FAIRWAY_")}
    given = {f"FAIRWAY_{name}": str(path) for name, path in fairway.items()}
    return subprocess.Popen(
        [sys.executable, str(folder / "train.py"), *TOY, "--warmup-steps=0", *arguments],
        env={**bare, **ONE_THREAD, **given},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def submit(
    job: Path, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Submits a job from its own folder, follows it to its end, and returns what it printed without
    the labels of its ranks."""
    fairway = str(Path(sys.executable).with_name("fairway"))
    done = finished(
        [fairway, "submit", str(job), "--target", "local", "--watch", *arguments],
        cwd=folder,
        env={**os.environ, **ONE_THREAD, **environment},
    )
    done.stdout = re.sub(r"(?m)^\[\d+\] ", "", done.stdout)
    return done


def kept_model(folder: Path) -> dict[str, Any]:
    """Returns the weights that the only run, or a process without one, has left below a folder."""
    import torch

    [path] = [
        each for each in folder.rglob("model.pt") if "work" not in each.relative_to(folder).parts
    ]
    return torch.load(path, weights_only=True)["model"]


def losses(output: str) -> list[float]:
    return [float(each) for each in re.findall(r"^step=\d+ loss=(\S+)", output, re.MULTILINE)]


def make_images(root: Path) -> Path:
    """Writes twelve images of two classes, which differ in size and colour."""
    from PIL import Image

    for number in range(12):
        place = root / f"n{number % 2:08}"
        place.mkdir(parents=True, exist_ok=True)
        colour = (20 * number, 250 - 20 * number, 60)
        Image.new("RGB", (40 + 9 * number, 90 - 5 * number), colour).save(place / f"{number}.JPEG")
    return root


# --- one process -------------------------------------------------------------------------------


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Ends processes that a failed test would leave behind."""
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_resnet50_resumed_training_gives_the_same_weights(resnet50: Path, tmp_path: Path) -> None:
    whole, parts, saved = tmp_path / "whole", tmp_path / "parts", tmp_path / "saved"
    images = ("--data", str(make_images(tmp_path / "train")), "--workers=1")
    endless = train(resnet50, *images, "--steps=1000000", "--report-every=2", CHECKPOINT_DIR=saved)
    with ended(endless):
        while not endless.stdout.readline().startswith("step="):
            assert endless.poll() is None
        os.killpg(endless.pid, signal.SIGTERM)  # also signals its image loader
        out, err = endless.communicate(timeout=PATIENCE)
    assert endless.returncode == 128 + signal.SIGTERM, err
    last = re.search(r"^stopped after step (\d+); saved: .*checkpoint.pt$", out, re.MULTILINE)
    assert last, out
    steps = f"--steps={int(last[1]) + 3}"
    runs = [
        train(resnet50, *images, steps, CHECKPOINT_DIR=saved, OUTPUT_MODEL=parts),
        train(resnet50, *images, steps, OUTPUT_MODEL=whole),
    ]
    for run in runs:
        with ended(run):
            out, err = run.communicate(timeout=PATIENCE)
            assert run.returncode == 0, err
        assert ("resumed after step" in out) == (run is runs[0])
    one, other = kept_model(whole), kept_model(parts)
    assert one.keys() == other.keys()
    for name, weights in one.items():
        assert weights.equal(other[name]), name


def test_resnet50_broken_image_is_reported_without_traceback(
    resnet50: Path, tmp_path: Path
) -> None:
    (tmp_path / "cats").mkdir()
    for number in range(4):
        (tmp_path / "cats" / f"{number}.jpg").write_bytes(b"no JPEG")
    with ended(train(resnet50, "--data", str(tmp_path), "--workers=1")) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert re.fullmatch(rf"error: {tmp_path}/cats/\d.jpg cannot be read as an image: .*\n", err)


# --- the jobs ----------------------------------------------------------------------------------


def test_resnet50_jobs_of_torchrun_and_horovod_give_the_same_weights(
    resnet50: Path, tmp_path: Path
) -> None:
    stand_in, results = tmp_path / "stand-in" / "horovod", {}
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("horovod_stand_in.py"), stand_in / "torch.py")
    few = ["steps=12", "warmup_steps=2", "report_every=5", "measure_single=3"]
    arguments = [part for each in few for part in ("-s", f"params.{each}")]
    for job, backend in (("job.yaml", "gloo"), ("horovod.yaml", "horovod")):
        place = tmp_path / backend
        place.mkdir()
        run = submit(resnet50 / job, place, *arguments, PYTHONPATH=str(stand_in.parent))
        assert run.returncode == 0, run.stdout + run.stderr
        assert f"processes=2 device=CPU backend={backend} precision=fp32" in run.stdout
        assert re.findall(r"^step=(\d+)", run.stdout, re.MULTILINE) == ["2", "5", "10", "12"]
        check_summary(run.stdout)
        check_metrics(place, run.stdout)
        results[backend] = losses(run.stdout), kept_model(place)
    (found, weights), (others, other_weights) = results.values()
    assert found[-1] < 0.8 * found[0]
    assert others == pytest.approx(found, rel=1e-3)
    for name, tensor in weights.items():
        assert tensor.allclose(other_weights[name], rtol=1e-2, atol=1e-3), name


def check_summary(output: str) -> None:
    """Asserts that the figures of the last line are consistent."""
    form = (
        r"^total images/s: ([\d.]+) on 2 processes, ([\d.]+) each;"
        r" scaling efficiency (\d+)% against one process at ([\d.]+)$"
    )
    found = re.search(form, output, re.MULTILINE)
    assert found, output
    total, each, efficiency, single = map(float, found.groups())
    assert each == pytest.approx(total / 2, abs=0.1)
    assert efficiency == pytest.approx(100 * each / single, abs=1)
    pattern = r"^step=\d+ loss=\S+ images/s=([\d.]+) images/s/process=([\d.]+)$"
    paces = [(float(a), float(b)) for a, b in re.findall(pattern, output, re.MULTILINE)]
    assert len(paces) == 3
    assert min(pace for pace, _ in paces) <= total <= max(pace for pace, _ in paces)
    for pace, of_each in paces:
        assert of_each == pytest.approx(pace / 2, abs=0.1)


def check_metrics(place: Path, output: str) -> None:
    """Asserts that the job's metrics have the values printed last."""
    [run] = (place / ".fairway" / "runs").iterdir()
    fairway = str(Path(sys.executable).with_name("fairway"))
    shown = subprocess.run(
        [fairway, "show", run.name, "--json"], cwd=place, capture_output=True, check=True
    )
    [task] = json.loads(shown.stdout)["task_list"]
    [(total, efficiency)] = re.findall(r"^total images/s: (\S+) .* (\d+)% ", output, re.MULTILINE)
    assert task["metrics"] == {
        "images_per_second": float(total),
        "efficiency": float(efficiency),
        "loss": losses(output)[-1],
    }


def test_resnet50_imagenet_job_trains_on_a_folder_of_images(resnet50: Path, tmp_path: Path) -> None:
    make_images(tmp_path / "disk" / "imagenet" / "train")
    mounts = {"targets": [{"name": "local", "mounts": {"data": str(tmp_path / "disk")}}]}
    (tmp_path / "fairway.yaml").write_text(json.dumps(mounts))
    small = "nodes=1 processes_per_node=1 preflight=none"
    small += " params.depth=18 params.width=8 params.image_size=32 params.batch_size=4"
    small += " params.steps=6 params.warmup_steps=2 params.report_every=2 params.workers=1"
    arguments = [part for each in small.split() for part in ("-s", each)]
    run = submit(resnet50 / "imagenet.yaml", tmp_path, *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"data={tmp_path}/disk/imagenet/train" in run.stdout
    assert re.search(r"^total images/s: [\d.]+ on 1 process, [\d.]+ each$", run.stdout, re.M)
    weights = kept_model(tmp_path)
    assert len(weights["head.2.bias"]) == 2  # one class per folder
    saved = tmp_path / "disk" / "checkpoints" / "resnet50-imagenet" / "checkpoint.pt"
    assert saved.exists()
