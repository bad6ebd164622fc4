"""Fixtures of the runner's end-to-end tests: the program `fairway`, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from raised import note_printed
from registries import Registry, registry
from waiting import PATIENCE, until

from fairway_agent import processes
from fairway_agent.fanout.launchers import free_port
from fairway_agent.task.task import Nodes
from fairway_cli import main as cli
from fairway_core.findings import UserError
from fairway_runner.engines.remote import ssh
from fairway_runner.runs.store import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LABELLING = ("openmpi", "horovod", "torchrun", "deepspeed", "tensorflow", "every-node")
"""The launchers that label what several ranks print."""


@dataclass
class Fairway:
    """The console script, run in `folder`; what it started is ended with the test."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self, *arguments: str | Path, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=cwd or self.folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        note_printed(done.stderr)
        return done

    def within(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs the program in this process, many times faster: for what starts nothing."""
        out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
        code: object = 0
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "argv", ["fairway", *map(str, arguments)])
            try:
                cli.main()
            except SystemExit as exit_:
                code = exit_.code or 0
            finally:
                ssh.close_all()  # as the end of its process does
        assert isinstance(code, int)
        printed = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(arguments, code, *printed)

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Starts it; its output is in pipes."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.started.append(process)
        return process

    def job(self, command: str, name: str = "job.yaml", **fields: Any) -> Path:
        """A job file; JSON is YAML. What several ranks print is not labelled where a test does not
        ask for it: most compare what a job prints."""
        launcher = fields.get("template", "openmpi")
        size = (fields.get("nodes", 1), fields.get("processes_per_node", 1))
        if size != (1, 1) and launcher in LABELLING:
            fields = {**fields, "options": {"label_ranks": False, **fields.get("options", {})}}
        path = self.folder / name
        path.write_text(json.dumps({"name": "job", "command": command, **fields}))
        return path

    def submit(self, job: Path, *arguments: str, **environment: str) -> str:
        """Submits a job that must start, and returns the run's id."""
        run = self("submit", job, "--json", *arguments, **environment)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)["run_id"]

    def watch(self, job: Path, *arguments: str) -> str:
        """Runs a job that must succeed to its end; what was printed."""
        run = self("submit", job, "--watch", *arguments)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def show(self, run: str) -> dict[str, Any]:
        """Facts of a run from `fairway show --json`."""
        shown = self.within("show", run, "--json")
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    def show_waiting(self, run: str) -> dict[str, Any]:
        """Facts of a run that is queued, once it says why: a scheduler looks in its own time."""

        def said() -> dict[str, Any]:
            facts = self.show(run)
            return facts if facts["state"] != "queued" or facts["reason"] else {}

        return until(said)

    def record(self, run: str) -> dict[str, Any]:
        """The run's `state.json`."""
        text = (self.folder / ".fairway" / "runs" / run / "state.json").read_text()
        return json.loads(text)

    def end(self) -> None:
        """Ends what a failed test left behind."""
        for process in self.started:
            process.kill()
            process.wait()
            # A child that outlived it may hold the pipes' other ends: their end is not waited for.
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for run in (self.folder / ".fairway" / "runs").glob("*/"):
            is_local = False
            with contextlib.suppress(UserError, OSError, KeyError):
                is_local = Run(run).record.engine == "local"
                # Or else its number may be another's by now, or that of a process elsewhere.
                if is_local and Run(run).state == "running":
                    os.kill(int(self.record(run.name)["supervisor"]), signal.SIGKILL)
            if is_local:  # a test beside this one may have a run of the same ID
                left = processes.sessions_of(run, Nodes.MARK)
            else:
                left = processes.sessions_with(f"FAIRWAY_RUN={run.name}")
            processes.kill(left)

    @staticmethod
    def command(*arguments: str | Path) -> list[str]:
        return [str(Path(sys.executable).with_name("fairway")), *map(str, arguments)]


class Fifo:
    """A named pipe, which is open here until it is closed."""

    # For reading and writing, so that opening it waits for nobody, and it does not end when nobody
    # else has it open.
    MODE = os.O_RDWR

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        path.chmod(0o666)  # also for tasks that run as another user
        self.path = path
        self.descriptor = os.open(path, self.MODE)
        self.poll = select.poll()
        self.poll.register(self.descriptor, select.POLLIN)
        self.text = b""

    def __str__(self) -> str:
        return str(self.path)

    def lines(self, count: int) -> list[str]:
        """Waits until there are `count` lines in all."""
        while self.text.count(b"\n") < count:
            assert self.read(), f"ended after {self.text!r}"
        return self.text.decode().splitlines()

    def read(self) -> bool:
        """Waits for more; False where no process has it open any more."""
        found = self.poll.poll(PATIENCE * 1000)
        assert found, f"nothing came through {self.path.name} after {self.text!r}"
        more = bool(found[0][1] & select.POLLIN)
        self.text += os.read(self.descriptor, 65536) if more else b""
        return more

    def close(self) -> None:
        """Nobody listens or waits here any more."""
        os.close(self.descriptor)


class Pipe(Fifo):
    """A named pipe that programs write to: what they say, and when the last of them is gone."""

    MODE = os.O_RDONLY | os.O_NONBLOCK

    def rest(self) -> str:
        """Waits until no process has it open for writing; all that was ever said."""
        while self.read():
            pass
        return self.text.decode()


class Signs(Fifo):
    """A named pipe in which programs on any machine say how far they are, a line each."""

    def all(self) -> list[str]:
        """Lines that have come up to now."""
        while self.poll.poll(0):
            self.read()
        return self.text.decode().splitlines()


class Gate(Fifo):
    """A named pipe that programs read a line from: they wait until it is opened."""

    def open(self, count: int = 1) -> None:
        """Lets `count` programs go on."""
        os.write(self.descriptor, b"go\n" * count)


@pytest.fixture
def fairway(tmp_path: Path) -> Iterator[Fairway]:
    """The program, in the test's own folder."""
    program = Fairway(tmp_path)
    yield program
    program.end()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """Pipe that the job's programs write to, in the job's folder under the name `pipe`."""
    with contextlib.closing(Pipe(tmp_path / "pipe")) as pipe:
        yield pipe


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Gate that the job's programs wait at, in the job's folder under the name `gate`."""
    with contextlib.closing(Gate(tmp_path / "gate")) as gate:
        yield gate


@pytest.fixture
def signs(tmp_path: Path) -> Iterator[Signs]:
    """Signs of programs through the named pipe `signs` in the test's folder."""
    with contextlib.closing(Signs(tmp_path / "signs")) as signs:
        yield signs


_HELLO = """
import http.server, sys
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"hello")
server = http.server.HTTPServer(("127.0.0.1", 0), Hello)
open(sys.argv[1], "w").write(f"{server.server_port}\\n")
server.serve_forever()
"""


@pytest.fixture
def hello(fairway: Fairway, signs: Signs) -> Callable[..., str]:
    """A run on a target whose port comes here by `fairway tunnel`, until that is interrupted."""

    def heard(port: int) -> bytes:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as said,
        ):
            return bytes(said.read())
        return b""

    def is_refused(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    def through(*target: str) -> str:
        (fairway.folder / "hello.py").write_text(_HELLO)
        job = fairway.job(f"exec python hello.py {signs}", "hello.yaml", template="plain")
        run = fairway.submit(job, *target)
        [port] = signs.lines(1)
        here = free_port()
        tunnel = fairway.start("tunnel", run, port, "--local-port", str(here))
        assert f"localhost:{here}" in tunnel.stdout.readline()
        assert until(lambda: heard(here)) == b"hello"
        tunnel.send_signal(signal.SIGINT)
        tunnel.communicate(timeout=PATIENCE)
        assert tunnel.returncode == 130
        until(lambda: is_refused(here))
        return run

    return through


@pytest.fixture
def lab() -> Iterator[Registry]:
    """A registry whose image people's nodes pull by Podman; see `Registry.allow`."""
    if shutil.which("podman") is None or shutil.which("newuidmap") is None:
        pytest.skip("no podman; on Debian: sudo apt-get install podman crun uidmap")
    spaces = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true")
    if subprocess.run(["runuser", "-u", "nobody", "--", *spaces], check=False).returncode:
        hint = "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        pytest.skip(f"this machine lets root alone make user namespaces; {hint}")
    with registry() as found:
        yield found
