"""The program `fairway` as a process, and the named pipes that jobs use."""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from raised import note_printed
from running import run_fairway
from waiting import PATIENCE, until

from fairway_agent import processes
from fairway_agent.task.task import Nodes
from fairway_core.findings import UserError
from fairway_runner.engines.remote import ssh
from fairway_runner.runs.store import Run

LABELLING = ("openmpi", "horovod", "torchrun", "deepspeed", "tensorflow", "every-node")
"""The launchers that label the output of several ranks."""


@dataclass
class Fairway:
    """The console script, run in `folder`; processes that it started are ended with the test."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(
        self, *arguments: str | Path, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the program to its end, as a process."""
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

    def ok(self, *arguments: str | Path, **options: Any) -> str:
        """Returns the output of a command that must succeed."""
        done = self.within(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def within(
        self, *arguments: str | Path, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the program in this process, which is many times faster. Not for tests of signals,
        terminals, or the output of a program that replaces this one by exec."""
        with pytest.MonkeyPatch.context() as patch:
            for name, text in environment.items():
                patch.setenv(name, text)
            try:
                done = run_fairway(cwd or self.folder, *map(str, arguments))
            finally:
                ssh.close_all()  # as the end of a process would
        return subprocess.CompletedProcess(arguments, *done)

    def refused(self, *arguments: str | Path, says: str | tuple[str, ...], code: int = 2) -> None:
        """Asserts that a command ends with that exit code, and these texts in its errors."""
        done = self.within(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        for each in (says,) if isinstance(says, str) else says:
            assert each in done.stderr

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Starts the program with its output in pipes."""
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
        """Writes a job file as JSON, which is YAML. The output of several ranks is not labelled
        unless a test asks for it, as most tests compare what a job prints."""
        launcher = fields.get("template", "openmpi")
        size = (fields.get("nodes", 1), fields.get("processes_per_node", 1))
        if size != (1, 1) and launcher in LABELLING:
            fields = {**fields, "options": {"label_ranks": False, **fields.get("options", {})}}
        path = self.folder / name
        path.write_text(json.dumps({"name": "job", "command": command, **fields}))
        return path

    def submit(self, job: Path, *arguments: str, **environment: str) -> str:
        """Submits a job that must start, and returns the run's id."""
        return json.loads(self.ok("submit", job, "--json", *arguments, **environment))["run_id"]

    def watch(self, job: Path, *arguments: str) -> str:
        """Runs a job that must succeed to its end, and returns what was printed."""
        return self.ok("submit", job, "--watch", *arguments)

    def show(self, run: str, **environment: str) -> dict[str, Any]:
        """Returns the facts of a run from `fairway show --json`."""
        return json.loads(self.ok("show", run, "--json", **environment))

    def show_waiting(self, run: str) -> dict[str, Any]:
        """Returns the facts of a queued run once a scheduler has given it a reason."""

        def said() -> dict[str, Any]:
            facts = self.show(run)
            return facts if facts["state"] != "queued" or facts["reason"] else {}

        return until(said)

    def record(self, run: str) -> dict[str, Any]:
        """Returns the content of the run's `state.json`."""
        text = (self.folder / ".fairway" / "runs" / run / "state.json").read_text()
        return json.loads(text)

    def end(self) -> None:
        """Ends processes that a failed test left behind."""
        for process in self.started:
            process.kill()
            process.wait()
            # A child that is still running may hold the pipes open, so do not wait for their end.
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for run in (self.folder / ".fairway" / "runs").glob("*/"):
            is_local = False
            with contextlib.suppress(UserError, OSError, KeyError):
                is_local = Run(run).record.engine == "local"
                # Otherwise the process id may be reused by now, or be that of another machine.
                if is_local and Run(run).state == "running":
                    os.kill(int(self.record(run.name)["supervisor"]), signal.SIGKILL)
            if is_local:  # a concurrent test may have a run of the same ID
                left = processes.sessions_of(run, Nodes.MARK)
            else:
                left = processes.sessions_with(f"FAIRWAY_RUN={run.name}")
            processes.kill(left)

    @staticmethod
    def command(*arguments: str | Path) -> list[str]:
        return [str(Path(sys.executable).with_name("fairway")), *map(str, arguments)]


class Fifo:
    """A named pipe that this process holds open until `close`."""

    # For reading and writing, so that opening the pipe does not block, and reading does not end
    # when no other process has it open.
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
        """Waits until `count` lines have arrived in all, and returns all lines."""
        while self.text.count(b"\n") < count:
            assert self.read(), f"ended after {self.text!r}"
        return self.text.decode().splitlines()

    def read(self) -> bool:
        """Waits for more data. Returns False if no process has the pipe open any more."""
        found = self.poll.poll(PATIENCE * 1000)
        assert found, f"nothing came through {self.path.name} after {self.text!r}"
        more = bool(found[0][1] & select.POLLIN)
        self.text += os.read(self.descriptor, 65536) if more else b""
        return more

    def close(self) -> None:
        """Closes this process's end of the pipe."""
        os.close(self.descriptor)


class Pipe(Fifo):
    """A named pipe that programs write to, which ends when the last writer has closed it."""

    MODE = os.O_RDONLY | os.O_NONBLOCK

    def rest(self) -> str:
        """Waits until the last writer has closed the pipe, and returns all that was written."""
        while self.read():
            pass
        return self.text.decode()


class Signs(Fifo):
    """A named pipe to which programs on any machine write their progress, line by line."""

    def all(self) -> list[str]:
        """Returns the lines that have arrived so far."""
        while self.poll.poll(0):
            self.read()
        return self.text.decode().splitlines()


class Gate(Fifo):
    """A named pipe from which programs read a line: they wait until the gate is opened."""

    def open(self, count: int = 1) -> None:
        """Lets `count` programs continue."""
        os.write(self.descriptor, b"go\n" * count)


@dataclass(frozen=True)
class Place:
    """A running target: its name, the `fairway.yaml` that declares it, the variables that commands
    need, and its features."""

    name: str
    engine: str
    nodes: int
    project: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    has_mpi: bool = True
    lead_to: Callable[[int], None] = lambda _: None
    """Makes that port of this machine reachable from the nodes."""

    @staticmethod
    def new_id(name: str) -> str:
        """Returns a run id that no other test uses."""
        return f"{name}-{secrets.token_hex(4)}"
