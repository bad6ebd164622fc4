"""The launchers' examples, submitted to this machine as their READMEs describe."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.integration


def need(there: bool, command: str) -> None:
    """Skips the test if something is not installed."""
    if not there:
        pytest.skip(f"not installed: {command}")


def submit(example: Path, folder: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    """Submits an example's job from an empty folder, follows it, and expects the exit code.
    Returns the output without rank labels."""
    fairway = Path(sys.executable).with_name("fairway")
    file = example if example.suffix else example / "job.yaml"
    done = finished(
        [fairway, "submit", file, "--target", "local", "--watch", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return re.sub(r"(?m)^\[\d+\] ", "", done.stdout)


@pytest.fixture(scope="module")
def examples(repository: Path) -> Path:
    """The folder of the examples."""
    return repository / "examples"


@pytest.mark.parametrize(
    ("example", "package", "says"),
    [
        ("mpich", "mpich", r"done: pi=3\.1415926536 error=\S+ ranks=4 mpi=MPICH"),
        ("intelmpi", "impi-rt", r"done: \S+ us \S+ GB/s ranks=2 mpi=Intel\(R\) MPI"),
    ],
)
@pytest.mark.nightly
def test_example_of_mpich_and_intel_mpi_runs(
    repository: Path, examples: Path, tmp_path: Path, example: str, package: str, says: str
) -> None:
    # The MPI's programs are named like Open MPI's, so they are in a separate folder.
    prefix = Path(sys.prefix) / example
    pip = f"pip install --no-deps --prefix .venv/{example} {package}"
    need((prefix / "bin/mpiexec.hydra").exists(), pip)
    path = f"{prefix / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    library = str(prefix / "lib/libmpi.so.12")
    done = submit(
        examples / example, tmp_path, PATH=path, VIRTUAL_ENV=sys.prefix, MPI4PY_LIBMPI=library
    )
    assert re.search(f"^{says}$", done, re.MULTILINE)


@pytest.mark.nightly
def test_example_of_intel_mpi_runs_ranks_without_bashrc(
    repository: Path, examples: Path, tmp_path: Path
) -> None:
    """If no shell started Fairway, bash could read ~/.bashrc, as the first rank reads a socket."""
    prefix = Path(sys.prefix) / "intelmpi"
    pip = "pip install --no-deps --prefix .venv/intelmpi impi-rt"
    need((prefix / "bin/mpiexec.hydra").exists(), pip)
    (tmp_path / ".bashrc").write_text("echo bashrc was read\n")
    path = f"{prefix / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    fairway = Path(sys.executable).with_name("fairway")
    job = examples / "intelmpi" / "job.yaml"
    done = finished(
        [fairway, "submit", job, "--watch", "-s", "command=echo rank"],
        cwd=tmp_path,
        env={"PATH": path, "VIRTUAL_ENV": sys.prefix, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rank\n") == 2
    assert "bashrc was read" not in done.stdout


@pytest.mark.nightly
def test_example_of_torchrun_runs_on_two_nodes(examples: Path, tmp_path: Path) -> None:
    need(importlib.util.find_spec("torch") is not None, ".venv/bin/pip install torch")
    # One process per node: four imports of PyTorch would occupy this machine's cores for long.
    done = submit(examples / "torchrun", tmp_path, "-s", "processes_per_node=1")
    assert "\ndone: slope=3.000 offset=-1.000 ranks=2 nodes=2\n" in done


@pytest.mark.nightly
def test_example_of_tensorflow_connects_chief_workers_and_parameter_server(
    examples: Path, tmp_path: Path
) -> None:
    done = submit(examples / "tensorflow", tmp_path)
    assert "\ndone: the chief has found 3 others\n" in done
    found = set(re.findall(r"^localhost:\d+ is (.*)$", done, re.MULTILINE))
    assert found == {"ps 0", "worker 0", "worker 1"}


def runs_of_digits(examples: Path, folder: Path) -> str:
    """Trains a model and makes images in separate runs. Returns the output of the training."""
    settings = ("-s", "params.epochs=1", "-s", "processes_per_node=1")
    done = submit(examples / "digits", folder, "--run-id", "digits-a", *settings)
    submit(examples / "score/images.yaml", folder, "--run-id", "images-a")
    return done


def test_example_of_scoring_gives_the_accuracy_of_the_trained_model(
    examples: Path, tmp_path: Path
) -> None:
    trained = runs_of_digits(examples, tmp_path)
    shares = ("-s", "sweep.points.shards.of=2")
    submit(examples / "score/score.yaml", tmp_path, "--run-id", "score-a", *shares)
    runs = tmp_path / ".fairway/runs/score-a/tasks"
    said = (runs / "finally/log.txt").read_text()
    accuracy = re.findall(r"^done: (accuracy=\S+) images/s", trained, re.MULTILINE)
    assert [f"done: {each} images=359\n" for each in accuracy] == [said]
    assert len((runs / "finally/outputs/table/names.csv").read_text().splitlines()) == 359
    named = [json.loads((runs / f"{task}/state.json").read_text())["state"] for task in range(2)]
    assert named == ["succeeded"] * 2


@pytest.mark.nightly
def test_example_of_serving_answers_requests_and_refuses_wrong_ones(
    examples: Path, tmp_path: Path
) -> None:
    runs_of_digits(examples, tmp_path)
    fairway = Path(sys.executable).with_name("fairway")
    job = ["-s", "params.port=0", "--target", "local", "--run-id", "serve-a"]
    serve = [fairway, "submit", examples / "serve/serve.yaml", *job, "--watch"]
    folder = tmp_path / ".fairway/runs/images-a/tasks/0/outputs/images"
    import numpy as np

    paths = sorted(folder.glob("*.npy"))[:20]
    images = [np.load(path).tolist() for path in paths]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = next(line.split()[-1] for line in server.stdout if "ready on port" in line)
            found = ask(port, {"images": images})
            assert len(found["probable"]) == 20
            right = sum(int(p.stem[-1]) == d for p, d in zip(paths, found["digits"], strict=True))
            assert right >= 15
            for wrong in ({}, {"images": [[1, 2]]}, {"images": "x"}, []):
                with pytest.raises(urllib.error.HTTPError, match="400"):
                    ask(port, wrong)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=300) as answer:
                assert json.loads(answer.read()) == {"ready": True}
        finally:
            subprocess.run([fairway, "cancel", "serve-a"], cwd=tmp_path, check=True, timeout=300)
    assert server.returncode == 130


def ask(port: str, facts: object) -> dict[str, list[float]]:
    """Posts the facts to the server and returns its answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(facts).encode())
    with urllib.request.urlopen(request, timeout=300) as answer:
        return dict(json.loads(answer.read()))


def notebook_of(folder: Path) -> dict[str, object]:
    """Returns the executed notebook of the only run."""
    [path] = folder.glob(".fairway/runs/*/tasks/0/outputs/notebook/report.ipynb")
    return dict(json.loads(path.read_text()))


def test_example_of_notebook_keeps_the_executed_notebook(examples: Path, tmp_path: Path) -> None:
    need(shutil.which("papermill", path=Path(sys.executable).parent) is not None, "papermill")
    done = submit(examples / "notebook", tmp_path, "-s", "params.title=it's {one}")
    assert "done: it's {one} of radius 2.0: area 12.567 from 500 × 500 points" in done
    text = json.dumps(notebook_of(tmp_path), ensure_ascii=False)
    assert "count = 500" in text
    assert "area 12.567 from 500 × 500 points" in text


@pytest.mark.nightly
def test_example_of_notebook_that_fails_fails_the_run(examples: Path, tmp_path: Path) -> None:
    need(shutil.which("papermill", path=Path(sys.executable).parent) is not None, "papermill")
    done = submit(
        examples / "notebook",
        tmp_path,
        *("-s", "params.count=0", "-s", "outputs.notebook.when=always"),
        code=1,
    )
    assert "ZeroDivisionError" in done
    assert "ZeroDivisionError" in json.dumps(notebook_of(tmp_path))
