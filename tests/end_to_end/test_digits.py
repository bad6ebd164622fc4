"""The example `examples/digits`, run under mpirun as a launcher would run it."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from programs import finished

# Seconds after which mpirun ends the job with its own exit code, so that a hang is a failed
# assertion and leaves no process behind.
TIMEOUT = 300

FAILS_ON_RANK_1 = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import mlp
from mpi4py import MPI
true_gradient, calls = mlp.Network.loss_and_gradient, []
def gradient(network, examples):
    calls.append(1)
    if MPI.COMM_WORLD.Get_rank() == 1 and len(calls) == 5:
        raise RuntimeError("the memory of rank 1 is on fire")
    return true_gradient(network, examples)
mlp.Network.loss_and_gradient = gradient
program = sys.argv[1] + "/train.py"
sys.argv = [program]
runpy.run_path(program, run_name="__main__")
"""


@pytest.fixture(scope="module")
def digits(repository: Path) -> Path:
    """The example's folder."""
    return repository / "examples" / "digits"


def mpirun(ranks: int) -> list[str]:
    """Returns the start of a command line, preferably with the mpirun of this environment."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    program = shutil.which("mpirun", path=places)
    assert program, "no mpirun: install the extra `local`, or your system's Open MPI"
    quick = "--bind-to none --map-by :OVERSUBSCRIBE --mca pml ob1 --mca btl self,sm"
    patient = "--mca mpi_yield_when_idle 1"  # other tests need the cores, too
    return [program, *quick.split(), *patient.split(), "--timeout", str(TIMEOUT), "-np", str(ranks)]


def environment(**fairway: Path | str) -> dict[str, str]:
    """Returns this environment with the given Fairway variables and no others."""
    bare = {name: v for name, v in os.environ.items() if not name.startswith("FAIRWAY_")}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return bare | root | {f"FAIRWAY_{name}": str(value) for name, value in fairway.items()}


def train(
    digits: Path, ranks: int, *arguments: str, **fairway: Path | str
) -> subprocess.CompletedProcess[str]:
    """Runs the example to its end."""
    return finished(
        [*mpirun(ranks), sys.executable, str(digits / "train.py"), *arguments],
        env=environment(**fairway),
    )


def layers(folder: Path) -> dict[str, np.ndarray]:
    """Returns the model that a run has kept."""
    with np.load(folder / "model.npz") as file:
        return dict(file)


def assert_same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys() == {"w1", "b1", "w2", "b2"}
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def last_accuracy(output: str) -> float:
    """Returns the accuracy of the last line, which must have the documented form."""
    line = output.splitlines()[-1]
    found = re.fullmatch(r"done: accuracy=(\d\.\d{3}) images/s=\d+ ranks=\d nodes=1", line)
    assert found, output
    return float(found[1])


@pytest.mark.parametrize("ranks", [1, 3])
def test_digits_training_reaches_95_percent_accuracy(digits: Path, ranks: int) -> None:
    run = train(digits, ranks)
    assert run.returncode == 0, run.stderr
    assert last_accuracy(run.stdout) >= 0.95
    assert f" ranks={ranks} " in run.stdout
    epochs = re.findall(
        r"^epoch=(\d+) loss=\d+\.\d{4} accuracy=\d\.\d{3} images/s=\d+$", run.stdout, re.MULTILINE
    )
    assert epochs == [str(number) for number in range(1, 31)]  # each once: only one rank prints
    assert "no model is kept" in run.stdout
    assert "attempt" not in run.stdout


@pytest.mark.nightly
def test_digits_resumed_training_gives_the_same_model(digits: Path, tmp_path: Path) -> None:
    whole, parts, checkpoints = tmp_path / "whole", tmp_path / "parts", tmp_path / "checkpoints"
    assert train(digits, 3, "--epochs", "4", OUTPUT_MODEL=whole).returncode == 0
    first = train(digits, 3, "--epochs", "2", CHECKPOINT_DIR=checkpoints)
    assert first.returncode == 0
    assert "resumed" not in first.stdout
    second = train(
        digits, 3, "--epochs", "4", CHECKPOINT_DIR=checkpoints, OUTPUT_MODEL=parts, ATTEMPT="1"
    )
    assert second.returncode == 0
    assert second.stdout.startswith("attempt=1\nresumed from epoch 2\nepoch=3 ")
    assert_same_bits(layers(whole), layers(parts))
    assert [path.name for path in checkpoints.iterdir()] == ["checkpoint.npz"]


def test_digits_sigterm_to_one_rank_stops_all_and_saves_a_checkpoint(
    digits: Path, tmp_path: Path
) -> None:
    checkpoints, whole, parts = tmp_path / "checkpoints", tmp_path / "whole", tmp_path / "parts"
    keep_pid = 'echo $$ > "$0/$OMPI_COMM_WORLD_RANK.pid"; exec "$@"'
    command = [sys.executable, str(digits / "train.py"), "--epochs", "10000"]
    with subprocess.Popen(
        [*mpirun(2), "sh", "-c", keep_pid, str(tmp_path), *command],
        env=environment(CHECKPOINT_DIR=checkpoints),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        for line in process.stdout:
            if line.startswith("epoch=2 "):
                os.kill(int((tmp_path / "1.pid").read_text()), signal.SIGTERM)
                break
        output = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    stopped = re.search(r"^stopped after epoch (\d+), step (\d+); saved: (.*)$", output, re.M)
    assert stopped, output
    assert stopped[3] == str(checkpoints / "checkpoint.npz")

    epochs = str(int(stopped[1]) + 1)
    again = train(digits, 2, "--epochs", epochs, CHECKPOINT_DIR=checkpoints, OUTPUT_MODEL=parts)
    assert again.returncode == 0, again.stderr
    assert f"resumed from epoch {stopped[1]}, step {stopped[2]}\n" in again.stdout
    assert train(digits, 2, "--epochs", epochs, OUTPUT_MODEL=whole).returncode == 0
    assert_same_bits(layers(whole), layers(parts))


def test_digits_failing_rank_ends_all_ranks(digits: Path, tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text(FAILS_ON_RANK_1)
    run = finished([*mpirun(3), sys.executable, str(program), str(digits)], env=environment())
    assert run.returncode == 1, run.stderr
    assert "RuntimeError: the memory of rank 1 is on fire" in run.stderr
    assert "done" not in run.stdout


def test_digits_bad_argument_is_reported_by_one_rank_only(digits: Path) -> None:
    run = train(digits, 2, "--lr", "nan")
    assert run.returncode == 2
    assert run.stderr.count("argument --lr: nan is not between") == 1


@pytest.fixture(scope="module")
def checkpoint(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good checkpoint of two epochs with the default settings."""
    folder = tmp_path_factory.mktemp("checkpoint")
    assert train(digits, 1, "--epochs", "2", CHECKPOINT_DIR=folder).returncode == 0
    return (folder / "checkpoint.npz").read_bytes()


def assert_refused(run: subprocess.CompletedProcess[str], path: Path, says: str) -> None:
    """Asserts one clear message, exit code 2, and no training."""
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    [message] = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert message.startswith(f"error: {path} {says}")
    assert "Traceback" not in run.stderr


def test_digits_checkpoint_that_does_not_fit_is_refused_and_not_overwritten(
    digits: Path, tmp_path: Path, checkpoint: bytes
) -> None:
    path = tmp_path / "checkpoint.npz"
    for kept, says in (
        (checkpoint[:-100], "cannot be read"),
        (checkpoint, "is of another training"),
    ):
        path.write_bytes(kept)
        assert_refused(train(digits, 3, "--lr=0.2", CHECKPOINT_DIR=tmp_path), path, says)
        assert path.read_bytes() == kept


def test_digits_damaged_checkpoint_or_one_of_another_size_raises(
    digits: Path, tmp_path: Path, checkpoint: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlp", load_module(digits, "mlp"))
    module, path = load_module(digits, "checkpoint"), tmp_path / "checkpoint.npz"
    for damaged in (checkpoint[:9000] + b"?" + checkpoint[9001:], b"", b"weights"):
        path.write_bytes(damaged)
        with pytest.raises(module.CheckpointError, match="cannot be read as a checkpoint"):
            module.load(path, "", 0)
    path.write_bytes(checkpoint)
    with np.load(path) as file:
        settings, size = str(file["settings"]), len(file["weights"])
    assert module.load(path, settings, size).epoch == 2
    with pytest.raises(module.CheckpointError, match="is of another training"):
        module.load(path, settings, size + 1)


@pytest.mark.nightly
def test_digits_training_continues_with_more_epochs_and_another_number_of_ranks(
    digits: Path, tmp_path: Path, checkpoint: bytes
) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(checkpoint)
    run = train(digits, 2, "--epochs", "3", CHECKPOINT_DIR=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("resumed from epoch 2\nepoch=3 ")


def load_module(digits: Path, name: str) -> ModuleType:
    """Imports a module of the example, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"digits_{name}", digits / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_gradient_matches_finite_differences_of_the_loss(digits: Path) -> None:
    mlp = load_module(digits, "mlp")
    rng = np.random.default_rng(7)
    examples = rng.random((9, 64)), rng.integers(0, 10, 9)
    weights = mlp.initial_weights(5, seed=3)
    network = mlp.Network(5, weights)
    _, gradient = network.loss_and_gradient(examples)
    direction, small = rng.normal(size=weights.size), 1e-6
    weights += small * direction
    above, _ = network.loss_and_gradient(examples)
    weights -= 2 * small * direction
    below, _ = network.loss_and_gradient(examples)
    assert (above - below) / (2 * small) == pytest.approx(gradient @ direction, rel=1e-6)


def test_digits_gradients_of_all_ranks_add_up_to_that_of_the_batch(digits: Path) -> None:
    mlp = load_module(digits, "mlp")
    rng = np.random.default_rng(8)
    images, labels = rng.random((10, 64)), rng.integers(0, 10, 10)
    network = mlp.Network(6, mlp.initial_weights(6, seed=1))
    loss, gradient = network.loss_and_gradient((images, labels))
    # Eleven ranks share ten images: one of them has none.
    shares = [network.loss_and_gradient((images[r::11], labels[r::11])) for r in range(11)]
    assert sum(share[0] for share in shares) == pytest.approx(loss)
    np.testing.assert_allclose(sum(share[1] for share in shares), gradient, atol=1e-12)
