"""The example `examples/resnet50`: its parts, and its jobs on this machine's CPUs."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Load = Callable[[str], ModuleType]

PARAMETERS = {50: 25_557_032, 18: 11_689_512}  # with 1,000 classes
# Small enough for a CPU; one thread, since two processes and other tests share the cores.
TOY = ("--depth=18", "--width=8", "--image-size=32", "--classes=10", "--batch-size=4")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PATIENCE = 120.0

# Horovod's documented calls over torch.distributed, and what it refuses: a tensor that is not
# contiguous. As there, the wrapped optimizer is a new one that has lost the state of the old.
HOROVOD = """
import contextlib
import os

import torch
import torch.distributed as dist

Average = "average"


def init():
    dist.init_process_group(
        "gloo",
        init_method="file://" + os.environ["FAIRWAY_SCRATCH_DIR"] + "/meeting",
        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )


rank, size, shutdown = dist.get_rank, dist.get_world_size, dist.destroy_process_group


def local_rank():
    return int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])


def _sendable(tensor):
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")
    return tensor


def allreduce(tensor, average=None, name=None, compression=None, op=None):
    assert op == Average
    result = _sendable(tensor).clone()
    dist.all_reduce(result)
    return result / size()


def broadcast_parameters(params, root_rank):
    for _, tensor in sorted(params.items()):
        dist.broadcast(_sendable(tensor), root_rank)


def broadcast_object(obj, root_rank=0, name=None):
    objects = [obj]
    dist.broadcast_object_list(objects, src=root_rank)
    return objects[0]


def barrier():
    dist.barrier()


def DistributedOptimizer(optimizer, named_parameters=None):
    named = [parameter for _, parameter in named_parameters]

    class Distributed(type(optimizer)):
        waits = True

        def synchronize(self):
            for parameter in named:
                dist.all_reduce(_sendable(parameter.grad))
                parameter.grad /= size()

        @contextlib.contextmanager
        def skip_synchronize(self):
            self.waits = False
            yield
            self.waits = True

        def step(self, closure=None):
            if self.waits:
                self.synchronize()
            return super().step(closure)

    return Distributed(optimizer.param_groups)
"""


@pytest.fixture(autouse=True)
def _needs() -> None:
    """Skips where something is not installed; in CI that is a failure."""
    for module, package in (("torch", "torch==2.13.0"), ("PIL", "pillow")):
        if importlib.util.find_spec(module) is None:
            message = f"not installed: {module}; .venv/bin/pip install {package}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    """The example's folder."""
    return repository / "examples" / "resnet50"


@pytest.fixture
def load(folder: Path) -> Iterator[Load]:
    """Imports a module of the example; its modules are gone again after the test."""
    names = {path.stem for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    sys.path.insert(0, str(folder))
    yield importlib.import_module
    sys.path.remove(str(folder))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)


def train(folder: Path, *arguments: str, **fairway: Path) -> subprocess.Popen[str]:
    """One process of the training that nobody launched; its output is in pipes."""
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
    """Submits a job from a folder of its own, and follows it to its end."""
    fairway = str(Path(sys.executable).with_name("fairway"))
    return subprocess.run(
        [fairway, "submit", str(job), "--target", "local", "--watch", *arguments],
        cwd=folder,
        env={**os.environ, **ONE_THREAD, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def kept_model(folder: Path) -> dict[str, Any]:
    """The weights that the only run, or the process alone, has left below a folder."""
    import torch

    [path] = [each for each in folder.rglob("model.pt") if "work" not in each.parts]
    weights: dict[str, Any] = torch.load(path, weights_only=True)["model"]
    return weights


def losses(output: str) -> list[float]:
    return [float(each) for each in re.findall(r"^step=\d+ loss=(\S+)", output, re.MULTILINE)]


# --- the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "count"), PARAMETERS.items())
def test_the_network_is_the_paper_s(load: Load, depth: int, count: int) -> None:
    import torch

    model = load("model").ResNet(depth=depth)
    assert model.parameter_count == count
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 1000)


@pytest.mark.parametrize(
    ("measured", "line"),
    [
        (
            (123.4, 2, 71.0),
            "61.7 each; scaling efficiency 87% against one process at 71.0",
        ),
        ((6514.0, 32, 357.0), "57% against one process at 357.0"),  # the figures of 2018
        ((4269.0, 32, 357.0), "37% against one process at 357.0"),
        ((71.04, 1, None), "total images/s: 71.0 on 1 process, 71.0 each"),
    ],
)
def test_the_last_line_says_what_was_measured(
    load: Load, measured: tuple[float, int, float | None], line: str
) -> None:
    assert load("speed").summary(*measured).endswith(line)


def test_the_warm_up_does_not_count(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module, now = load("speed"), iter([1.0, 9.0, 10.0, 12.0, 20.0, 21.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(now))
    speed = module.Speed()
    for images, counts, expected in ((16, False, 2.0), (16, True, 8.0), (20, True, 20.0)):
        assert speed.images_per_second in (None, 8.0)
        speed.start()
        assert speed.stop(images, counts=counts) == expected
    assert speed.images_per_second == 36 / 3  # what passed between the intervals counts neither


def test_the_rate_grows_with_the_batch_then_rises_and_drops(load: Load) -> None:
    arguments = "--lr 0.1 --batch-size 64 --lr-warmup-steps 3 --lr-drops 6 8"
    options = load("options").read_options(arguments.split())
    rates = [options.learning_rate(step, 8) for step in range(9)]
    expected = [0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.02, 0.02, 0.002]
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--depth 34", "invalid choice: 34"),
        ("--batch-size 1", "1 is not between 2 and"),
        ("--image-size 16", "16 is not between 32 and"),
        ("--steps ten", "'ten'"),
        ("--lr nan", "nan is not between"),
        ("--steps 5 --warmup-steps 5", "--warmup-steps leaves no step to measure"),
        ("--single 70 --measure-single 5", "not allowed with"),
    ],
)
def test_options_that_cannot_be(
    load: Load, arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        load("options").read_options(arguments.split())
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


def test_a_checkpoint_comes_back_and_others_are_refused(load: Load, tmp_path: Path) -> None:
    checkpoint, error = load("checkpoint"), load("errors").UserError
    path, settings = tmp_path / "new" / "checkpoint.pt", {"depth": 18}
    state = {"settings": settings, "step": 7, "model": {}, "optimizer": {}, "scaler": {}}
    checkpoint.write(path, state)
    assert checkpoint.read(path, settings) == state
    assert [each.name for each in path.parent.iterdir()] == ["checkpoint.pt"]
    with pytest.raises(
        error, match=r"is of another model .*'depth': 18.*'depth': 50.*use the same"
    ):
        checkpoint.read(path, {"depth": 50})
    checkpoint.write(path, {"settings": settings, "step": 7})
    with pytest.raises(error, match=r"is no checkpoint .*remove it"):
        checkpoint.read(path, settings)
    whole = path.read_bytes()
    for broken in (b"", b"not a checkpoint", whole[: len(whole) // 2]):
        path.write_bytes(broken)
        with pytest.raises(error, match=r"is no checkpoint .*remove it"):
            checkpoint.read(path, settings)


class Processes:
    """Process `rank` of two; rank 0 has sent `sent`."""

    def __init__(self, rank: int, sent: object = None) -> None:
        self.rank, self.sent = rank, sent

    def broadcast(self, value: object) -> object:
        return value if self.rank == 0 else self.sent


def test_only_rank_0_works_and_only_it_complains(load: Load) -> None:
    from_rank_0, error = load("distribution").from_rank_0, load("errors").UserError

    def fails() -> None:
        raise error("no such folder")

    assert from_rank_0(Processes(0), lambda: "read") == "read"
    assert from_rank_0(Processes(1, "read"), fails) == "read"
    with pytest.raises(error, match="no such folder"):
        from_rank_0(Processes(0), fails)
    with pytest.raises(SystemExit) as exit_:
        from_rank_0(Processes(1, error("no such folder")), fails)
    assert exit_.value.code == 2


def test_mpirun_without_horovod(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setitem(sys.modules, "horovod", None)
    with pytest.raises(load("errors").UserError, match="there is no Horovod"):
        load("distribution").start()


def test_more_processes_than_gpus(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("device")
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(load("errors").UserError, match=r"process 3 .*there are 2.*: gpus"):
        module.choose_device(3)


# --- a folder of images ------------------------------------------------------------------------


def make_images(root: Path, classes: int = 2, each: int = 6) -> Path:
    """Images of one colour a class, of several sizes and forms."""
    from PIL import Image

    for number in range(classes):
        place = root / f"n{number:08}"
        place.mkdir(parents=True)
        for index in range(each):
            colour = (250 * number, 20 * index, 250 - 250 * number)
            image = Image.new("RGB", (40 + 9 * index, 70 - 5 * index), colour)
            image.convert("L" if index == 1 else "RGB").save(place / f"{index}.JPEG", quality=95)
        (place / "readme.txt").write_text("no image")
    return root


def test_a_piece_lies_in_its_image(load: Load) -> None:
    random_piece = load("images").random_piece
    mirrored = 0
    for seed in range(300):
        (left, top, right, bottom), mirror = random_piece(500, 375, seed)
        assert 0 <= left < right <= 500.001
        assert 0 <= top < bottom <= 375.001
        width, height = right - left, bottom - top
        assert 0.0799 <= width * height / (500 * 375) <= 1
        assert 0.7499 <= width / height <= 1.3334
        mirrored += mirror
    assert 100 < mirrored < 200
    assert random_piece(500, 375, 7) == random_piece(500, 375, 7)
    # No piece of the permitted forms has 8 % of such an image.
    assert random_piece(1000, 10, 0)[0] == (495, 0, 505, 10)


def test_images_are_found_and_read(load: Load, tmp_path: Path) -> None:
    images = load("images")
    found = images.find_images(str(make_images(tmp_path / "train")))
    assert found.classes == ("n00000000", "n00000001")
    assert found.paths[0] == "n00000000/0.JPEG"
    assert found.labels == (0,) * 6 + (1,) * 6
    read = images.Images(found, 32)
    pixels, label = read[6, 1]
    assert (tuple(pixels.shape), label) == ((3, 32, 32), 1)
    assert pixels.float().mean(dim=(1, 2)).tolist() == pytest.approx([250, 0, 0], abs=6)
    grey, _ = read[1, 1]  # has one channel in its file
    assert grey[0].equal(grey[1])


def test_a_piece_is_cut_and_mirrored(load: Load, tmp_path: Path) -> None:
    from PIL import Image

    images = load("images")
    picture = Image.new("RGB", (64, 64), (255, 0, 0))
    picture.paste((0, 0, 255), (32, 0, 64, 64))  # red to the left, blue to the right
    (tmp_path / "one").mkdir()
    picture.save(tmp_path / "one" / "picture.png")
    read = images.Images(images.find_images(str(tmp_path)), 64)
    seen = set()
    for seed in range(40):
        (left, _, right, _), mirrored = images.random_piece(64, 64, seed)
        if left < 24 and right > 40:
            red, _, blue = read[0, seed][0]
            first, last = (blue, red) if mirrored else (red, blue)
            assert first[:, 0].min() == 255, seed
            assert last[:, -1].min() == 255, seed
            seen.add(mirrored)
    assert seen == {True, False}


def test_folders_that_are_none(load: Load, tmp_path: Path) -> None:
    images, error = load("images"), load("errors").UserError
    with pytest.raises(error, match=r"absent: No such file"):
        images.find_images(str(tmp_path / "absent"))
    with pytest.raises(error, match="holds no folders; each class needs one"):
        images.find_images(str(tmp_path))
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "notes.txt").touch()
    with pytest.raises(error, match=r"cats holds no image \(\.jpg"):
        images.find_images(str(tmp_path))


def test_every_process_has_its_share_and_an_epoch_has_all(load: Load) -> None:
    batches = load("loader").Batches

    def picks(rank: int, first_step: int, steps: int) -> list[list[tuple[int, int]]]:
        share = batches(26, 4, rank=rank, size=3, seed=5, first_step=first_step)
        return [batch for batch, _ in zip(share, range(steps), strict=False)]

    # 26 images are two steps of twelve; the two that are left over come in other epochs.
    ranks = [picks(rank, 0, 6) for rank in range(3)]
    epochs = [
        [number for rank in ranks for step in rank[start : start + 2] for number, _ in step]
        for start in (0, 2, 4)
    ]
    assert [len(epoch) for epoch in epochs] == [len(set(epoch)) for epoch in epochs] == [24] * 3
    assert epochs[0] != epochs[1]
    for rank in range(3):
        assert picks(rank, 3, 3) == ranks[rank][3:]
    with pytest.raises(load("errors").UserError, match="26 images, fewer than the 27 of one step"):
        batches(26, 9, rank=0, size=3, seed=5, first_step=0)


# --- one process -------------------------------------------------------------------------------


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Ends what a failed test would leave behind."""
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_stopped_training_goes_on_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    whole, parts, saved = tmp_path / "whole", tmp_path / "parts", tmp_path / "saved"
    images = ("--data", str(make_images(tmp_path / "train")), "--workers=1")
    endless = train(folder, *images, "--steps=1000000", "--report-every=2", CHECKPOINT_DIR=saved)
    with ended(endless):
        assert endless.stdout is not None
        while not endless.stdout.readline().startswith("step="):
            assert endless.poll() is None
        os.killpg(endless.pid, signal.SIGTERM)  # its reader of images is told too
        out, err = endless.communicate(timeout=PATIENCE)
    assert endless.returncode == 128 + signal.SIGTERM, err
    last = re.search(r"^stopped after step (\d+); saved: .*checkpoint.pt$", out, re.MULTILINE)
    assert last, out
    steps = f"--steps={int(last[1]) + 3}"
    runs = [
        train(folder, *images, steps, CHECKPOINT_DIR=saved, OUTPUT_MODEL=parts),
        train(folder, *images, steps, OUTPUT_MODEL=whole),
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


def test_a_broken_image_is_named_without_a_traceback(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    for number in range(4):
        (tmp_path / "cats" / f"{number}.jpg").write_bytes(b"no JPEG")
    with ended(train(folder, "--data", str(tmp_path), "--workers=1")) as process:
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert re.fullmatch(rf"error: {tmp_path}/cats/\d.jpg cannot be read as an image: .*\n", err)


# --- the jobs ----------------------------------------------------------------------------------


def test_two_processes_by_torchrun_and_by_horovod(folder: Path, tmp_path: Path) -> None:
    stand_in, results = tmp_path / "stand-in" / "horovod", {}
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    (stand_in / "torch.py").write_text(HOROVOD)
    few = ["steps=12", "warmup_steps=2", "report_every=5", "measure_single=3"]
    arguments = [part for each in few for part in ("-s", f"params.{each}")]
    for job, backend in (("job.yaml", "gloo"), ("horovod.yaml", "horovod")):
        place = tmp_path / backend
        place.mkdir()
        run = submit(folder / job, place, *arguments, PYTHONPATH=str(stand_in.parent))
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
        # What is counted and averaged over batches is rank 0's own on both.
        assert tensor.allclose(other_weights[name], rtol=1e-2, atol=1e-3), name


def check_summary(output: str) -> None:
    """The last line's figures are one another's."""
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
    """The job's metrics end at what was printed last."""
    [task] = [
        json.loads(path.read_text()) for path in place.glob(".fairway/runs/*/tasks/0/state.json")
    ]
    print(task)


def test_the_job_of_imagenet_on_a_folder_of_images(folder: Path, tmp_path: Path) -> None:
    make_images(tmp_path / "disk" / "imagenet" / "train")
    mounts = {"targets": [{"name": "local", "mounts": {"data": str(tmp_path / "disk")}}]}
    (tmp_path / "fairway.yaml").write_text(json.dumps(mounts))
    small = "nodes=1 processes_per_node=1 preflight=none"
    small += " params.depth=18 params.width=8 params.image_size=32 params.batch_size=4"
    small += " params.steps=6 params.warmup_steps=2 params.report_every=2 params.workers=1"
    arguments = [part for each in small.split() for part in ("-s", each)]
    run = submit(folder / "imagenet.yaml", tmp_path, *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"data={tmp_path}/disk/imagenet/train" in run.stdout
    assert re.search(r"^total images/s: [\d.]+ on 1 process, [\d.]+ each$", run.stdout, re.M)
    weights = kept_model(tmp_path)
    assert len(weights["head.2.bias"]) == 2  # a class a folder
    saved = tmp_path / "disk" / "checkpoints" / "resnet50-imagenet" / "checkpoint.pt"
    assert saved.exists()
