"""Server `fairway serve`: delay of a log line, cost of listing 10,000 runs and of 50 readers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jobs import FAIRWAY
from measure import Benchmark, Command, Pair, cpu_seconds

from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.client import HTTPResponse

_RUNS = 10_000
_STREAMS = 50
_LINES = 15
_PAUSE = 0.1  # seconds between the server's polls of a file
_DONE = "succeeded"


class _Server:
    """A server that has answered: its process, and a client for it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        record = folder / ".fairway" / "serve.json"
        while True:
            try:
                known = json.loads(record.read_text())
                self._place = urlsplit(known["url"]).netloc
                self._headers = {"Authorization": f"Bearer {known['token']}"}
                self.get("/healthz").read()
            except (OSError, ValueError):
                assert process.poll() is None, "the server has ended"
                time.sleep(0.05)
            else:
                return

    def get(self, path: str, **headers: str) -> HTTPResponse:
        connection = HTTPConnection(self._place, timeout=600)
        connection.request("GET", path, headers={**self._headers, **headers})
        answer = connection.getresponse()
        assert answer.status == 200, f"{path}: {answer.status}"
        return answer

    def follow(self) -> HTTPResponse:
        """Returns the event stream of a run's log, after its first event."""
        stream = self.get("/api/v1/runs/run-000000/log", Accept="text/event-stream")
        _event(stream)
        return stream

    @property
    def cpu(self) -> float:
        """Processor time that the server has used so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def mebibytes(self) -> float:
        """Resident memory of the server, in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def _serving(folder: Path, runs: int) -> Iterator[_Server]:
    """Yields a server of many runs, of which the first is active."""
    store = RunStore(folder / ".fairway")
    for name, engine, state in (("run-000000", "none", "running"), ("run-000001", "local", _DONE)):
        record = RunRecord(name, "run", engine, 1e9, 1, "job.yaml", "0", engine=engine)
        run, lock = store.create(record, {"tasks/0/log.txt": "begun\n"})
        (run.folder / "state.json").write_text(json.dumps({"state": state, "tasks": {state: 1}}))
        os.close(lock)
    for index in range(2, runs):
        # Copied directly: the store would wait for the disk for each run.
        copy = run.folder.with_name(f"run-{index:06}")
        copy.mkdir()
        for name in ("run.json", "state.json"):
            text = (run.folder / name).read_text()
            (copy / name).write_text(text.replace(run.id, copy.name))
    (folder / "fairway.yaml").write_text("{}\n")
    process = Command([FAIRWAY, "serve"], directory=folder).start()
    try:
        yield _Server(folder, process)
    finally:
        process.kill()
        process.wait()


def _event(stream: HTTPResponse) -> None:
    while stream.readline().strip():
        pass


def _line(folder: Path) -> Pair:
    """Measures the time from a line on disk to a reader of events, and to a reader of `tail -f`
    that polls the file at the same interval."""
    with _serving(folder, 1) as server, ExitStack() as stack:
        log = folder / ".fairway/runs/run-000000/tasks/0/log.txt"
        stream = server.follow()
        command = ["tail", "-f", "-s", str(_PAUSE), "---disable-inotify", str(log)]
        tail = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(tail.kill)
        assert tail.stdout is not None
        tail.stdout.readline()
        spent: list[tuple[float, float]] = []
        for number in range(_LINES):
            time.sleep(0.13 + 0.01 * number)  # at different times between two polls of the server
            begun = time.perf_counter()
            with log.open("a") as out:
                out.write(f"line {number}\n")
            tail.stdout.readline()
            theirs = time.perf_counter() - begun
            _event(stream)
            spent.append((time.perf_counter() - begun, theirs))
    return Pair.of(spent)


def _list_bytes(folder: Path) -> Pair:
    with _serving(folder, _RUNS) as server:
        size = len(server.get("/").read()) / 2**20
    return Pair(size, 0.0, size)


def _list_cpu(folder: Path) -> Pair:
    """Measures processor time of a page of the newest runs, against that of the command."""
    with _serving(folder, _RUNS) as server:
        server.get("/").read()
        command = Command([FAIRWAY, "list", "--limit", "100"], directory=folder)
        cpu_seconds(command)
        pairs = []
        for _ in range(5):
            before = server.cpu
            server.get("/").read()
            pairs.append((server.cpu - before, cpu_seconds(command)))
    return Pair.of(pairs)


def _streams(folder: Path) -> Pair:
    """Measures memory of a server with many readers, against that before they came."""
    with _serving(folder, 1) as server:
        server.get("/").read()
        idle = server.mebibytes
        streams = [server.follow() for _ in range(_STREAMS)]
        with (folder / ".fairway/runs/run-000000/tasks/0/log.txt").open("a") as out:
            out.write("".join(f"line {number}\n" for number in range(10_000)))
        for stream in streams:
            _event(stream)
        busy = server.mebibytes
    return Pair(busy, idle, busy / idle)


BENCHMARKS = [
    Benchmark("serve: a log line to its reader", f"tail -f -s {_PAUSE}", 2.0, _line),
    Benchmark("serve: page of 10,000 runs, size", "300 KiB", 300 / 1024, _list_bytes, "MiB"),
    Benchmark("serve: page of 10,000 runs, CPU", "fairway list --limit 100", 2.0, _list_cpu),
    Benchmark("serve: memory of 50 readers", "before they came", 3.0, _streams),
]
