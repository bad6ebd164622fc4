"""Speed of submitting runs to Batch and reading them back, against its stand-in on loopback.

The stand-in is a separate process. Each measurement compares two ways through the real client, in
turn; the stand-in can delay every answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import BIN, PYTHON, Benchmark, Command, Pair, peak_mebibytes

from fairway_simulator.batch.simulator import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_runner.engines.batch.submission import BatchSubmission

_TASKS = 10_000
_THREADS = 16
_RUNS = 3

_SERVICE = """
import json, pathlib, sys
from fairway_simulator.batch import BatchSimulator
with BatchSimulator(pathlib.Path(sys.argv[1]), nodes=1, storage=True) as service:
    service.limit_jobs(None)
    formula = "$TargetDedicatedNodes = 0;"
    service.add_pool("waiting", enableAutoScale=True, autoScaleFormula=formula)
    print(json.dumps(service.environment()), flush=True)
    sys.stdin.read()
"""


@dataclass
class Service:
    """The stand-in, and the folder where `fairway` uses it."""

    folder: Path
    environment: dict[str, str]
    count: int = 0

    def latency(self, seconds: float) -> None:
        """Delays every answer of the service by these seconds; 0 removes the delay."""
        self._control("DELETE")
        if seconds:
            self._control("POST", {"kind": "latency", "seconds": seconds})

    def _control(self, method: str, body: dict[str, Any] | None = None) -> None:
        url = f"{self.environment['AZURE_BATCH_ENDPOINT']}/simulator/faults"
        headers = {"Authorization": f"Key {self.environment['AZURE_BATCH_ACCESS_KEY']}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        urllib.request.urlopen(request, timeout=10).close()

    def target(self, pool: str = "waiting") -> Any:
        """Returns the engine's target."""
        from fairway_core.target import Target

        return Target.model_validate(
            {
                "name": "pool",
                "engine": "batch",
                "nodes": {"min": 0, "max": 1},
                "storage": {"containers": ["outputs", "code"]},
                "batch": {"pool": pool, "identity": IDENTITY},
            }
        )


@contextmanager
def _service(folder: Path) -> Iterator[Service]:
    process = subprocess.Popen(
        [str(PYTHON), "-c", _SERVICE, str(folder / "service")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
    )
    assert process.stdout is not None
    try:
        environment = json.loads(process.stdout.readline())
        os.environ.update(environment)
        work = folder / "work"
        work.mkdir()
        yield Service(work, environment)
    finally:
        process.communicate()
        process.wait()


def _many(service: Service, count: int) -> BatchSubmission:
    """Returns the submission of `count` tasks that are recorded, but not sent yet."""
    from fairway_runner.engines.azure_storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.engines.batch.submission import BatchSubmission, State
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit import snapshot as code
    from fairway_runner.submit.prepare import prepare

    service.count += 1
    folder = service.folder / f"job{service.count}"
    folder.mkdir()
    points = [{"grid": {"x": {"start": 0, "stop": count, "step": 1}}}]
    job = {"name": "many", "command": "echo {{ params.x }}", "sweep": {"points": points}}
    (folder / "job.yaml").write_text(json.dumps({**job, "outputs": {"model": {}}}))
    target, store = service.target(), RunStore(service.folder / ".fairway")
    prepared = prepare(load_job(str(folder / "job.yaml"), ()), target, store)
    snapshot = code.snapshot(prepared.code, store.base / "code")
    run, lock = store.create(prepared.record, prepared.all_files())
    os.close(lock)
    state = State(0, jobs=(run.id,))
    return BatchSubmission(run, Account(target, 600), Storage(target, 600), state, snapshot)


def _spent(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _bare_client() -> Any:
    """Returns the SDK's client, changed only to have a connection for each thread."""
    from azure.batch import BatchClient
    from azure.core.credentials import AzureNamedKeyCredential

    from fairway_core.target import Target
    from fairway_runner.engines.azure_sdk import transport

    credential = AzureNamedKeyCredential(
        os.environ["AZURE_BATCH_ACCOUNT"], os.environ["AZURE_BATCH_ACCESS_KEY"]
    )
    endpoint = os.environ["AZURE_BATCH_ENDPOINT"]
    straight = transport(Target.local(), endpoint, 60.0)
    return BatchClient(endpoint, credential, transport=straight)


def _ready_made(client: Any, many: BatchSubmission, job: str) -> None:
    """Calls `create_task_collection` with prepared dicts, from as many threads as Fairway."""
    client.create_job({**many.job(), "id": job})
    tasks = list(many.tasks())
    chunks = [tasks[start : start + 100] for start in range(0, len(tasks), 100)]
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda chunk: client.create_task_collection(job, {"value": chunk}), chunks))


def _submit(latency: float = 0.0) -> Callable[[Path], Pair]:
    """Measures sending 10,000 tasks by Fairway and by the SDK, at `latency` seconds per answer."""

    def measure(folder: Path) -> Pair:
        pairs = []
        with _service(folder) as service:
            client = _bare_client()
            _many(service, 1_000).send()
            service.latency(latency)
            for number in range(_RUNS):
                many = _many(service, _TASKS)
                ours = _spent(many.send)
                theirs = _spent(partial(_ready_made, client, many, f"r{number}"))
                pairs.append((ours, theirs))
        return Pair.of(pairs)

    return measure


def _submit_memory(folder: Path) -> Pair:
    """Measures the memory of the full program with 100,000 tasks."""
    with _service(folder) as service:
        target = service.target().record()
        (service.folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
        points = [{"grid": {"x": {"start": 0, "stop": 100_000, "step": 1}}}]
        job = {"name": "many", "command": "echo {{ params.x }}", "sweep": {"points": points}}
        (service.folder / "job.yaml").write_text(json.dumps(job))
        words = [str(BIN / "fairway"), "submit", "job.yaml", "--target", "pool", "--yes"]
        peak = peak_mebibytes(Command(words, directory=service.folder))
    return Pair(peak, 0.0, 0.0)


def _list(folder: Path) -> Pair:
    """Measures listing 500 jobs with counts at 100 ms, against one call after another."""
    from fairway_runner.engines.batch.engine import BatchEngine
    from fairway_runner.runs.store import RunStore

    with _service(folder) as service:
        engine = BatchEngine(service.target())
        store = RunStore(service.folder / ".fairway")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda many: many.send(), [_many(service, 2) for _ in range(500)]))
        client = _bare_client()
        service.latency(0.1)

        def one_by_one() -> None:
            for job in client.list_jobs():
                client.get_job_task_counts(job["id"])

        ours = _spent(lambda: engine.refresh(list(store.unsorted())))
        theirs = _spent(one_by_one)
    return Pair(ours, theirs, ours / theirs)


def _follow_logs(folder: Path) -> Pair:
    """Measures copying a log of 256 MiB, against the SDK's client that writes it to a file."""
    from fairway_runner.engines.batch.engine import BatchEngine

    size = 256 << 20
    times = []
    with _service(folder) as service:
        run = _run_one(service, f"yes a line of a log | head -c {size}")
        engine, client = BatchEngine(service.target("sim")), _bare_client()

        def download() -> None:
            with (folder / "bare").open("wb") as out:
                for piece in client.download_task_file(run.id, "0", "stdout.txt"):
                    out.write(piece)

        for _ in range(3):  # in turn: most of the time is the disk's, which varies
            theirs = _spent(download)
            assert (folder / "bare").stat().st_size >= size
            (folder / "bare").unlink()
            ours = _spent(lambda: engine.refresh([run], logs=True))
            assert run.log(0).stat().st_size == size, "all of it was copied"
            run.log(0).unlink()
            (run.folder / "logs.json").unlink()
            times.append(Pair(ours, theirs, ours / theirs))
    return sorted(times, key=lambda pair: pair.ratio)[1]


def _fetch(folder: Path) -> Pair:
    """Measures fetching 1,000 files of 100 KB at 50 ms per request, against one after another."""
    from azure.core.pipeline.transport import RequestsTransport

    from fairway_runner.engines.batch.engine import BatchEngine

    with _service(folder) as service:
        many = (
            'for i in {1..1000}; do head -c 100000 /dev/urandom > "$FAIRWAY_OUTPUT_MANY/$i"; done'
        )
        run = _run_one(service, many, outputs={"many": {}})
        engine = BatchEngine(service.target("sim"))
        engine.refresh([run], logs=True)
        plain = RequestsTransport.send

        def late(self: Any, request: Any, **options: Any) -> Any:
            time.sleep(0.05)
            return plain(self, request, **options)

        RequestsTransport.send = late
        try:
            ours = _spent(lambda: engine.collect(run, [0]))
            theirs = _spent(lambda: _one_at_a_time(run.id))
        finally:
            RequestsTransport.send = plain
        assert len(list((run.task_folder(0) / "outputs" / "many").iterdir())) == 1_000
    return Pair(ours, theirs, ours / theirs)


def _one_at_a_time(run_id: str) -> None:
    from azure.storage.blob import ContainerClient

    text = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    container = ContainerClient.from_connection_string(text, "outputs")
    for blob in container.list_blobs(name_starts_with=f"{run_id}/0/outputs/"):
        container.download_blob(blob.name).readall()


def _run_one(service: Service, command: str, **fields: Any) -> Any:
    """Returns a run of one task that has succeeded."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit.prepare import prepare
    from fairway_runner.submit.submission import submit

    job = {"name": "one", "template": "plain", "command": command, **fields}
    (service.folder / "job.yaml").write_text(json.dumps(job))
    store = RunStore(service.folder / ".fairway")
    job_file = load_job(str(service.folder / "job.yaml"), ())
    run = submit(prepare(job_file, service.target("sim"), store), store)
    run.wait()
    assert run.state == "succeeded", run.status
    return run


BENCHMARKS = [
    Benchmark("batch: 10,000 tasks", "create_task_collection", 1 / 0.9, _submit()),
    Benchmark("batch: 10,000 tasks at 150 ms", "create_task_collection", 1.25, _submit(0.15)),
    Benchmark("batch: 100,000 tasks, memory", "-", 400, _submit_memory, "MiB"),
    Benchmark("batch: list of 500 jobs at 100 ms", "one by one", 1 / 8, _list),
    Benchmark("batch: log of 256 MiB", "the SDK's client", 1.5, _follow_logs),
    Benchmark("batch: 1,000 files at 50 ms", "one at a time", 1 / 5, _fetch),
]
