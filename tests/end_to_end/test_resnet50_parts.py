"""The modules of the example `examples/resnet50`, each tested alone in this process."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

Load = Callable[[str], ModuleType]

pytestmark = pytest.mark.nightly

PARAMETERS = {50: 25_557_032, 18: 11_689_512}  # with 1,000 classes


@pytest.fixture
def load(resnet50: Path) -> Iterator[Load]:
    """Imports a module of the example; its modules are removed again after the test."""
    names = {path.stem for path in resnet50.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    sys.path.insert(0, str(resnet50))
    yield importlib.import_module
    sys.path.remove(str(resnet50))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)


@pytest.mark.parametrize(("depth", "count"), PARAMETERS.items())
def test_resnet50_model_has_the_parameter_count_of_the_paper(
    load: Load, depth: int, count: int
) -> None:
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
def test_resnet50_summary_shows_speed_and_scaling_efficiency(
    load: Load, measured: tuple[float, int, float | None], line: str
) -> None:
    assert load("speed").summary(*measured).endswith(line)


def test_resnet50_speed_leaves_out_the_warm_up(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module, now = load("speed"), iter([1.0, 9.0, 10.0, 12.0, 20.0, 21.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(now))
    speed = module.Speed()
    for images, counts, expected in ((16, False, 2.0), (16, True, 8.0), (20, True, 20.0)):
        assert speed.images_per_second in (None, 8.0)
        speed.start()
        assert speed.stop(images, counts=counts) == expected
    assert speed.images_per_second == 36 / 3  # time between the intervals is not counted


def test_resnet50_learning_rate_scales_with_the_batch_warms_up_and_drops(load: Load) -> None:
    arguments = "--lr 0.1 --batch-size 64 --lr-warmup-steps 3 --lr-drops 6 8"
    options = load("options").read_options(arguments.split())
    rates = [options.learning_rate(step, 8) for step in range(9)]
    assert rates == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.02, 0.02, 0.002])


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
def test_resnet50_bad_options_end_with_exit_code_2(
    load: Load, arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        load("options").read_options(arguments.split())
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


def test_resnet50_checkpoint_is_read_back_and_other_or_broken_ones_are_refused(
    load: Load, tmp_path: Path
) -> None:
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


def test_resnet50_rank_0_does_the_work_and_reports_errors_alone(load: Load) -> None:
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


def test_resnet50_mpirun_without_horovod_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setitem(sys.modules, "horovod", None)
    with pytest.raises(load("errors").UserError, match="there is no Horovod"):
        load("distribution").start()


def test_resnet50_more_processes_than_gpus_are_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("device")
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: 2)
    with pytest.raises(load("errors").UserError, match=r"process 3 .*there are 2.*: gpus"):
        module.choose_device(3)


# --- a folder of images ------------------------------------------------------------------------


def make_images(root: Path, classes: int = 2, each: int = 6) -> Path:
    """Writes images with one colour per class, in several sizes and shapes."""
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


def test_resnet50_random_crop_lies_within_the_image(load: Load) -> None:
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
    # No crop with a permitted aspect ratio covers 8 % of such an image.
    assert random_piece(1000, 10, 0)[0] == (495, 0, 505, 10)


def test_resnet50_images_are_found_and_read_by_class(load: Load, tmp_path: Path) -> None:
    images = load("images")
    found = images.find_images(str(make_images(tmp_path / "train")))
    assert found.classes == ("n00000000", "n00000001")
    assert found.paths[0] == "n00000000/0.JPEG"
    assert found.labels == (0,) * 6 + (1,) * 6
    read = images.Images(found, 32)
    pixels, label = read[6, 1]
    assert (tuple(pixels.shape), label) == ((3, 32, 32), 1)
    assert pixels.float().mean(dim=(1, 2)).tolist() == pytest.approx([250, 0, 0], abs=6)
    grey, _ = read[1, 1]  # a file with one channel
    assert grey[0].equal(grey[1])


def test_resnet50_random_crop_is_cut_and_mirrored(load: Load, tmp_path: Path) -> None:
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


def test_resnet50_missing_or_empty_image_folders_are_refused(load: Load, tmp_path: Path) -> None:
    images, error = load("images"), load("errors").UserError
    with pytest.raises(error, match=r"absent: No such file"):
        images.find_images(str(tmp_path / "absent"))
    with pytest.raises(error, match="holds no folders; each class needs one"):
        images.find_images(str(tmp_path))
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "notes.txt").touch()
    with pytest.raises(error, match=r"cats holds no image \(\.jpg"):
        images.find_images(str(tmp_path))


def test_resnet50_batches_share_the_images_of_an_epoch_without_overlap(load: Load) -> None:
    batches = load("loader").Batches

    def picks(rank: int, first_step: int, steps: int) -> list[list[tuple[int, int]]]:
        share = batches(26, 4, rank=rank, size=3, seed=5, first_step=first_step)
        return [batch for batch, _ in zip(share, range(steps), strict=False)]

    # 26 images are two steps of twelve; the two remaining images are used in other epochs.
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
