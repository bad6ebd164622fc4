"""Runs the tasks of one run to their end, detached from the terminal that started it.

Started by the engine as `python -m fairway_runner.engines.local.supervisor FOLDER LOCK
STARTED`: the run's folder, a descriptor that holds the run's lock, and one on which to
say that the tasks have started. As long as this process lives it holds the lock; a run
that is not finished and whose lock is free has lost its supervisor.

Standard library only: the same file supervises runs on hosts without Fairway.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairway_runner.engines.local import processes

_STRAY_GRACE = 2.0  # seconds for what a finished task left running
_GUARD_GRACE = 5.0  # seconds for the tasks of a supervisor that was killed


@dataclass
class Task:
    """A task that is running: its process, and when it started (seconds since 1970)."""

    index: int
    process: subprocess.Popen[bytes]
    started: float


@dataclass
class Supervisor:
    """Starts tasks in order, at most `max_parallel` at a time, and records what became of them."""

    folder: Path
    plan: dict[str, Any]
    guard: processes.Guard
    running: dict[int, Task] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    cancelled: bool = False

    def run(self, wakeup: socket.socket, started: int) -> None:
        """Runs everything to its end; returns when the run's last state is written."""
        waiting = list(range(self.plan["tasks"]))
        self.counts = {"queued": len(waiting)}
        selector = selectors.DefaultSelector()
        selector.register(wakeup, selectors.EVENT_READ)
        while waiting or self.running:
            while waiting and len(self.running) < self.plan["max_parallel"] and not self.cancelled:
                self._start(waiting.pop(0))
            self._record("running")
            if started >= 0:
                os.write(started, b"started")
                os.close(started)
                started = -1
            selector.select()
            wakeup.recv(4096)
            if self.cancelled:
                self._cancel(waiting)
            self._reap()
        self._record(self._outcome())

    def cancel(self) -> None:
        """Asks for an early end; called from a signal handler."""
        self.cancelled = True

    def _start(self, index: int) -> None:
        folder = self.folder / "tasks" / str(index)
        environment = self._contract(index, folder)
        with (folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                ["bash", str(folder / "launch.sh")],
                cwd=self.plan["directory"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.guard.watch(process.pid)
        task = Task(index, process, time.time())
        self.running[index] = task
        self._move("queued", "running")
        write_json(
            folder / "state.json",
            {"state": "running", "started": task.started, "session": process.pid},
        )

    def _contract(self, index: int, folder: Path) -> dict[str, str]:
        """The environment that a launcher relies on; directories exist when it starts."""
        nodes = self.plan["nodes"]
        directories = {
            "FAIRWAY_SHARED_DIR": self.folder / "shared",
            "FAIRWAY_SCRATCH_DIR": folder / "scratch",
            "FAIRWAY_CHECKPOINT_DIR": Path(
                self.plan["checkpoint"] or self.folder / "checkpoints" / str(index)
            ),
        }
        for name in self.plan["outputs"]:
            directories[f"FAIRWAY_OUTPUT_{name.upper()}"] = folder / "outputs" / name
        for directory in directories.values():
            directory.mkdir(parents=True, exist_ok=True)
        hostfile = folder / "hosts"
        hostfile.write_text("localhost\n" * nodes, encoding="ascii")
        return {
            **os.environ,
            **self.plan["environment"],
            "FAIRWAY_RUN": self.plan["run"],
            "FAIRWAY_TASK": str(index),
            "FAIRWAY_ATTEMPT": "0",
            "FAIRWAY_NODES": str(nodes),
            "FAIRWAY_PROCESSES_PER_NODE": str(self.plan["processes_per_node"]),
            "FAIRWAY_WORLD_SIZE": str(nodes * self.plan["processes_per_node"]),
            "FAIRWAY_HOSTS": ",".join(["localhost"] * nodes),
            "FAIRWAY_HOSTFILE": str(hostfile),
            "FAIRWAY_MAIN_HOST": "localhost",
            "FAIRWAY_MAIN_PORT": str(_free_port()),
            **{name: str(directory) for name, directory in directories.items()},
        }

    def _reap(self) -> None:
        for task in list(self.running.values()):
            code = task.process.poll()
            if code is None:
                continue
            # What a task leaves running would hold its cores long after it is forgotten.
            processes.end({task.process.pid}, _STRAY_GRACE)
            self.guard.forget(task.process.pid)
            del self.running[task.index]
            self._finish(task, 128 - code if code < 0 else code)

    def _finish(self, task: Task, code: int) -> None:
        state = "succeeded" if code == 0 else "cancelled" if self.cancelled else "failed"
        self._move("running", state)
        folder = self.folder / "tasks" / str(task.index)
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        write_json(
            folder / "state.json",
            {"state": state, "started": task.started, "ended": time.time(), "exit_code": code},
        )

    def _cancel(self, waiting: list[int]) -> None:
        for index in waiting:
            self._move("queued", "cancelled")
            write_json(self.folder / "tasks" / str(index) / "state.json", {"state": "cancelled"})
        waiting.clear()
        processes.end({task.process.pid for task in self.running.values()}, self.plan["grace"])
        for task in self.running.values():
            task.process.wait()

    def _move(self, before: str, after: str) -> None:
        self.counts[before] -= 1
        self.counts[after] = self.counts.get(after, 0) + 1

    def _outcome(self) -> str:
        for state in ("cancelled", "failed"):
            if self.counts.get(state):
                return state
        return "succeeded"

    def _record(self, state: str) -> None:
        ended = None if state == "running" else time.time()
        write_json(
            self.folder / "state.json",
            {
                "state": state,
                "started": self.started,
                "ended": ended,
                "supervisor": os.getpid(),
                "tasks": {name: count for name, count in self.counts.items() if count},
            },
        )


def write_json(path: Path, value: object) -> None:
    """Replaces a file as a whole: a reader sees the old text or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    folder, lock, started = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # Neither descriptor may reach a task: it would keep the run looking alive.
    os.set_inheritable(lock, False)
    os.set_inheritable(started, False)
    guard = processes.Guard((lock, started), _GUARD_GRACE)
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    supervisor = Supervisor(folder, plan, guard)
    wakeup, signalled = socket.socketpair()
    signalled.setblocking(False)
    signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.cancel())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisor.run(wakeup, started)


if __name__ == "__main__":
    main()
