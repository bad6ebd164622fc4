"""One attempt of a task on its main node: what Batch starts as the task's command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import outputs, processes, record
from fairway_agent.allocators import batch
from fairway_agent.batch import attempts, contract
from fairway_agent.batch.notices import Notices
from fairway_agent.batch.places import Places, fail, say
from fairway_agent.fanout.sshd import server, serving
from fairway_agent.faults import Fault
from fairway_agent.figures.sampling import Sampling, sampler
from fairway_agent.masking import Pump

if TYPE_CHECKING:
    from fairway_agent.task_spec import TaskSpec

TIMED_OUT, CANCELLED = 124, 130
RUNNING = "fairway.running"
_STRAY_GRACE = 2.0  # seconds for what a finished script left running
_HELD = 600.0  # seconds for which a node that was given notice is waited to go
_NO_START = 69  # EX_UNAVAILABLE of sysexits.h
_PAUSE = 0.5


@dataclass
class Attempt:
    """The script while it runs; `stop` may be called from a signal's handler or a thread."""

    places: Places
    spec: TaskSpec
    number: int
    environment: dict[str, str]
    config: Path | None
    others: list[str]
    process: subprocess.Popen[bytes] | None = None
    kill_at: float | None = None
    timed_out: bool = False
    cancelled: bool = False
    notice: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    def run(self) -> int:
        """Runs the script to its end; returns its exit code."""
        plan, places = self.places.plan, self.places
        self.running_file.touch()
        script = places.base / "launch.sh"
        script.write_text(self.spec.script, encoding="utf-8")
        sys.stdout.flush()
        self.process = subprocess.Popen(
            ["bash", str(script)],
            cwd=places.code,
            env={**self.environment, **self.secrets},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self.secrets else None,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        pump = None
        if self.process.stdout is not None:
            log = os.fdopen(os.dup(1), "wb")
            pump = Pump(self.process.stdout, log, self.secrets.values())
        end = None if plan.timeout is None else time.monotonic() + plan.timeout
        sampling = self._sampling()
        while True:
            try:
                code = self.process.wait(_PAUSE)
                break
            except subprocess.TimeoutExpired:
                self._keep_deadlines(end)
                sampling.keep()
        sampling.end()
        processes.end({self.process.pid}, _STRAY_GRACE)
        if pump is not None:
            pump.join()
        if self.timed_out:
            return TIMED_OUT
        if self.cancelled:  # whatever it ends with, it is not done
            return CANCELLED
        return 128 - code if code < 0 else code

    def _sampling(self) -> Sampling:
        """What samples the task's nodes. They share no folder: all of it comes to the main one,
        into a file that is kept with the logs."""
        each_node = str(self.places.programs / "fairway-each-node")
        return Sampling(
            self.places.plan.sample_every,
            lambda seconds: [each_node, *sampler(None, seconds)],
            lambda: self.environment,
            Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs", "figures.txt"),
        )

    @property
    def running_file(self) -> Path:
        """The file by whose removal a client, which has no other way in, cancels the task."""
        return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], RUNNING)

    def _keep_deadlines(self, end: float | None) -> None:
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            assert self.process is not None, "it was started"
            processes.kill({self.process.pid} | serving.sessions(self.places.base))
        elif self.kill_at is None and not self.running_file.exists():
            self.cancelled = True
            say("the run is cancelled")
            self.stop()
        elif self.kill_at is None and end is not None and now >= end:
            self.timed_out = True
            say(f"the task is over its {self.places.plan.timeout:g} s")
            self.stop()

    def stop(self) -> None:
        """Asks the job's own processes on every node to end; they have the job's grace."""
        if self.kill_at is not None or self.process is None:
            return
        name = self.places.plan.signal
        self.kill_at = time.monotonic() + self.places.plan.grace
        if self.config is not None:
            server.order(self.config, self.others, f"fairway-tell {name}")
        number = signal.Signals[f"SIG{name}"]
        processes.tell({self.process.pid} | serving.sessions(self.places.base), number)

    def give_notice(self, kind: str) -> None:
        """Acts on what Azure says about one of the nodes."""
        grace = self.places.plan.grace
        say(f"Azure announces: {kind}; the job has {grace:g} s to save what it has")
        self.notice = kind
        self.stop()


def run_task() -> int:
    """The whole attempt; returns the exit code that Batch sees."""
    os.dup2(1, 2)
    places = Places()
    code = places.setup_code()
    if code:
        return fail(f"the setup failed on this node with exit code {code}", code)
    spec = places.spec()
    contract.make_directories(places, spec)
    while True:
        number = attempts.count(
            places.shared / "attempts", places.task, int(os.environ.get("FAIRWAY_FIRST", "0"))
        )
        _bring_earlier_logs(places, number)
        try:
            attempt = _ready(places, spec, number)
        except (OSError, Fault, subprocess.CalledProcessError) as error:
            return fail(f"the task was not started: {error}", _NO_START)
        notices = Notices(places.base / "notice", attempt.give_notice)
        code = _watched(attempt, notices)
        if code or "FAIRWAY_LAST" in os.environ:  # which runs again in each retry
            _keep_log(places, number)
        if attempt.notice:
            notices.approve()
        if not attempt.notice or code == 0:
            _finish(places, attempt)
            if "FAIRWAY_SCHEDULE" in os.environ:
                _keep_scheduled(places, spec, succeeded=code == 0)
            return code
        # Ending now would be a failure; a node that is taken away is none, and Batch starts
        # the task elsewhere. Where it is not taken after all, the task goes on here.
        say("the job has ended; this node waits to be taken away")
        time.sleep(_HELD)


def _watched(attempt: Attempt, notices: Notices) -> int:
    notices.start()
    signal.signal(signal.SIGTERM, lambda *_: attempt.stop())
    code = attempt.run()
    notices.stopped.set()
    return code


def _ready(places: Places, spec: TaskSpec, number: int) -> Attempt:
    environment = contract.contract(places, spec, number)
    hosts = [host.address for host in batch.given()]
    config = None
    if len(hosts) > 1:
        config = server.connect(places, hosts)
        environment["FAIRWAY_SSH_CONFIG"] = str(config)
    attempt = Attempt(places, spec, number, environment, config, hosts[1:])
    attempt.secrets = places.secret_values()
    return attempt


def _finish(places: Places, attempt: Attempt) -> None:
    """Puts outputs and the other nodes' files where Batch takes them from."""
    work = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])
    if work != places.base:
        shutil.rmtree(work / "outputs", ignore_errors=True)
        (places.base / "outputs").mkdir(exist_ok=True)
        shutil.move(places.base / "outputs", work / "outputs")
    if places.scratch.parent.parent.name == "fairway":
        shutil.rmtree(places.scratch, ignore_errors=True)
    if attempt.config is None:
        return
    for name in ("stdout", "stderr"):
        printed = server.order(attempt.config, attempt.others, f"fairway-output {name}.txt")
        for rank, text in enumerate(printed.values(), start=1):
            if text:
                (work / "logs" / f"{name}.node{rank}.txt").write_bytes(text)


def _keep_scheduled(places: Places, spec: TaskSpec, *, succeeded: bool) -> None:
    """Lays all that is kept of a schedule's run below a folder of its own: Batch takes it to
    the same place each time."""
    work = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])
    kept = work / "kept" / places.run / places.task
    kept.mkdir(parents=True, exist_ok=True)
    outputs.collect(work / "outputs", kept / "outputs", spec.outputs, succeeded=succeeded)
    for log in (work / "logs").glob("*.txt"):
        shutil.copyfile(log, kept / log.name)
    sys.stdout.flush()
    shutil.copyfile(work.parent / "stdout.txt", kept / "stdout.txt")


def _keep_log(places: Places, number: int) -> None:
    """Keeps what this attempt printed for the next, which begins with an empty file."""
    logs = places.shared / "logs" / places.task
    logs.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    shutil.copyfile(Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt"), logs / f"{number}.txt")


def _bring_earlier_logs(places: Places, number: int) -> None:
    """Lays what earlier attempts printed beside this one's, to be kept as well; then says which
    attempt this is, by which a reader knows that nothing more of the earlier ones is coming."""
    folder = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])
    (folder / "logs").mkdir(exist_ok=True)
    for log in sorted((places.shared / "logs" / places.task).glob("*.txt")):
        shutil.copyfile(log, folder / "logs" / f"stdout.{log.name}")
    mark = f"{number} {os.urandom(8).hex()}\n"
    record.write_bytes(folder / "logs" / "attempt.txt", mark.encode("ascii"))
