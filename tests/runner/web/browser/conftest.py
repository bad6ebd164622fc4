"""A real browser, its servers, and a project with runs of all kinds that always looks the same."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from running import MakeRun
from served import PROGRAM, serve

from fairway_boot.files import try_lock
from fairway_runner.runs.store import Run, RunStore

Opened = Callable[..., AbstractContextManager[Page]]

PATIENCE = 300_000  # milliseconds: only a hang takes this long


@contextmanager
def served(project: Path, *words: str, program: Sequence[str] = PROGRAM) -> Iterator[str]:
    """Serves the project until the end, when the server is killed, and yields the URL to log in."""
    with serve(project, *words, program=program) as (_, said):
        yield said.strip().removeprefix("ready: open ")


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """Starts servers: `with serving(project, "--port", "8000") as address`."""
    return served


@pytest.fixture
def address(project: Path) -> Iterator[str]:
    with served(project) as found:
        yield found


@pytest.fixture
def opened(chromium: Browser) -> Opened:
    """Opens a page: `with opened(address, color_scheme="dark") as page`."""

    def new(address: str, allowed: str = "", **settings: Any) -> AbstractContextManager[Page]:
        return _opened(chromium.new_context(**settings), address, allowed)

    return new


@pytest.fixture
def page(opened: Opened, address: str) -> Iterator[Page]:
    """The list of runs; the test fails if the browser has reported an error by its end."""
    with opened(address) as found:
        yield found


@contextmanager
def _opened(context: BrowserContext, address: str, allowed: str) -> Iterator[Page]:
    context.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(address)
    yield page
    context.close()
    assert [each for each in complaints if not allowed or allowed not in each] == []


_NOW = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
# The server's clock stands still, so that every picture is the same.
_STILL = f"import time; time.time = lambda: {_NOW}; from fairway_cli.entry import main; main()"
_JOB = """\
name: resnet50
template: torchrun
nodes: 2
processes_per_node: 8
command: python train.py --lr {{ params.lr }}
params: {lr: 0.1, epochs: 90}
metrics:
  loss: "loss=([0-9.]+)"
  accuracy: "accuracy=([0-9.]+)"
"""
_TARGETS = """\
targets:
  - name: h100
    engine: ssh
    vm_size: Standard_ND96isr_H100_v5
    nodes: {min: 2, max: 2}
    ssh: {host: 127.0.0.1, user: azureuser, shared: /data/fairway}
"""
_METRICS = {"loss": "loss=([0-9.]+)", "accuracy": "accuracy=([0-9.]+)"}


@pytest.fixture(scope="session")
def showcase(tmp_path_factory: pytest.TempPathFactory, make_run_in: MakeRun) -> Iterator[str]:
    """The URL, with the token, of a server that shows runs of all kinds."""
    project = tmp_path_factory.mktemp("showcase")
    (project / "fairway.yaml").write_text(_TARGETS)
    (project / "cdktf.json").write_text("{}\n")
    (project / "job.yaml").write_text(_JOB)
    going = _fill(RunStore(project / ".fairway"), make_run_in)
    # Locked as if a process watched these runs: no command marks them as lost.
    locks = [try_lock(run.folder / "lock") for run in going]
    with served(project, program=[sys.executable, "-c", _STILL]) as address:
        yield address
    for lock in filter(None, locks):
        os.close(lock)


@pytest.fixture(scope="session")
def cookies(chromium: Browser, showcase: str) -> Any:
    """Cookies of a browser that has logged in to the showcase."""
    with chromium.new_context() as context:
        context.new_page().goto(showcase)
        return context.storage_state()


@pytest.fixture
def shown(
    opened: Opened, showcase: str, cookies: Any
) -> Callable[..., AbstractContextManager[Page]]:
    """Opens a page of the showcase: `with shown("/runs/…", color_scheme="dark") as page`."""
    place, _, _ = showcase.partition("/login")
    # Some pages report a mistake, and browsers log every answer with an error status.
    allowed = "Failed to load resource"
    return lambda path, **settings: opened(place + path, allowed, storage_state=cookies, **settings)


def _fill(store: RunStore, make_run: MakeRun) -> list[Run]:
    """Makes runs of all states and returns the active ones."""
    make = partial(make_run, store, fairway="1.0", job_file="job.yaml")
    wide = {"nodes": 2, "processes_per_node": 8, "params": {"lr": 0.1, "epochs": 90}}
    training = make(
        "resnet50-k3v9xa",
        [{"state": "running", "exit_code": None, "log": _training(64, 0.1), **wide}],
        target="h100",
        metrics=_METRICS,
        tags=["imagenet"],
    )
    _set(training.folder, "running", 2520)
    (training.folder / "figures").mkdir()
    for node, use in (("h100-0", 0.93), ("h100-1", 0.88)):
        lines = (json.dumps(_sample(use, index)) for index in range(42))
        (training.folder / "figures" / f"{node}.jsonl").write_text("\n".join(lines) + "\n")
    points = [(lr, momentum) for lr in (0.01, 0.03, 0.1, 0.3, 1.0) for momentum in (0.0, 0.9)]
    tasks = [
        {"params": {"lr": lr, "momentum": each}, "log": _training(40, lr * (1 + each))}
        for lr, each in points
    ]
    sweep = make("digits-sweep-p7m2qd", tasks, metrics=_METRICS, tags=["digits"])
    _set(sweep.folder, "succeeded", 9000, 845)
    for name, lr, began in (("digits-w4n8ct", 0.1, 12_000), ("digits-e6h2rb", 0.03, 12_900)):
        task = {"params": {"lr": lr}, "log": _training(40, lr)}
        run = make(name, [task], metrics=_METRICS, tags=["digits"])
        _set(run.folder, "succeeded", began, 61)
        model = run.task_folder(0) / "outputs" / "model" / "model.npz"
        model.parent.mkdir(parents=True)
        model.write_bytes(bytes(18_432))
    waiting = make("llama-tune-m5x7gz", [{"state": "queued"}], "queued", target="h100")
    _set(waiting.folder, "queued", 300, reason="waits for 2 free nodes of h100")
    said = _training(3, 0.1) + "RuntimeError: CUDA out of memory\n"
    failed = make(
        "resnet50-b2j6sy", [{"state": "failed", "log": said, **wide}], "failed", target="h100"
    )
    _set(failed.folder, "failed", 5400, 92, reason="task 0: exit code 1")
    done = make("nccl-tests-q8d3fk", [wide], target="h100")
    _set(done.folder, "succeeded", 16_000, 75)
    ended = make("llama-tune-h9u4vp", [{"state": "cancelled"}], "cancelled", target="h100")
    _set(ended.folder, "cancelled", 18_000, 410)
    return [training, waiting]


def _training(steps: int, rate: float) -> str:
    """Returns a log in which the loss falls, faster at a higher rate unless it is too high."""
    pull = min(rate, 0.6) * (0.35 if rate < 1 else 0.05)
    lines, bend = [], 0.03 * math.sin(50 * rate)
    for step in range(1, steps + 1):
        loss = 0.08 + 2.2 * math.exp(-pull * step) + 0.02 * math.sin(step * 1.7 + rate)
        lines.append(f"step={step} loss={loss:.4f} accuracy={1 - 0.3 * loss**0.8 + bend:.3f}\n")
    return "".join(lines)


def _sample(base: float, index: int) -> dict[str, Any]:
    use = base + 0.04 * math.sin(index / 2)
    sample = {"time": _NOW - 2520 + 60 * index, "cpu": 0.4 * use, "memory": 4e11}
    gpus = [{"index": gpu, "use": min(1.0, use + gpu / 200)} for gpu in range(8)]
    fabric = {"fabric_sent": 3.6e10 * use, "fabric_received": 3.5e10 * use, "fabric_limit": 5e10}
    return {**sample, **fabric, "memory_total": 1.9e12, "gpus": gpus}


def _set(
    folder: Path, state: str, ago: float, seconds: float | None = None, reason: str | None = None
) -> None:
    """Sets the times of the run in a folder, its state and the reason for it."""
    began = None if state == "queued" else _NOW - ago
    ended = _NOW - ago + seconds if seconds else None
    _change(folder / "run.json", created=_NOW - ago - 4)
    _change(folder / "state.json", state=state, reason=reason, started=began, ended=ended)
    _change(folder / "job.json", command="python train.py --lr {{ params.lr }}")
    _change(folder / "provenance.json", git={"commit": "8f2c1d0b9e7a" * 3, "dirty": False})
    _change(folder / "provenance.json", code="5d41402abc4b2a76" * 4)
    tasks = list((folder / "tasks").glob("*/state.json"))
    for task in tasks:
        early = ended and ended - 37 * (int(task.parent.name) % 4) if len(tasks) > 1 else ended
        _change(task, started=began, ended=early)
    (folder / "job.yaml").write_text(_JOB)


def _change(file: Path, **facts: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))
