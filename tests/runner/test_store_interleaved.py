"""The run store under any order of its commands, of a `kill -9` and of a full disk.

Each actor runs the real code in its own thread. Before each system call, it waits for its turn,
which a seeded random generator assigns: every order is tried sooner or later, and can be repeated
by its seed. A killed actor never continues, and its open files are closed as by the kernel.
"""

import errno
import fcntl
import io
import json
import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE

from fairway_agent.state_files import FINAL_STATES, RunState, States
from fairway_core.findings import UserError
from fairway_runner.runs.clean import removable, remove
from fairway_runner.runs.store import Run, RunRecord, RunStore

pytestmark = pytest.mark.integration

SEEDS = range(0, 400, 100)
RUN = "job-aaaaaa"
_WRITES = {"open": "w", "mkdir": "", "rename": "", "replace": ""}


class Gone(BaseException):
    """An exception that unwinds the thread of a killed actor after the checks."""


class Actor(threading.Thread):
    """One command; `error` is the exception that ended it."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.work, self.turn, self.yielded = work, threading.Semaphore(0), threading.Semaphore(0)
        self.descriptors: set[int] = set()
        self.killed = self.ended = False
        self.error: BaseException | None = None

    def run(self) -> None:
        self.turn.acquire()
        try:
            self.work()
        except Gone:
            return
        except BaseException as error:  # noqa: BLE001 - judged later
            self.error = error
        self.ended = True
        self.yielded.release()

    def step(self) -> None:
        """Lets the actor continue to its next call, or to its end."""
        self.turn.release()
        assert self.yielded.acquire(timeout=PATIENCE), f"{self.name} hangs"

    def pause(self) -> None:
        """Waits for the next turn; called in the actor's thread."""
        if self.killed:
            raise Gone
        self.yielded.release()
        self.turn.acquire()
        if self.killed:
            raise Gone


class World:
    """The actors, the disk, and the calls that they share."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.draw = random.Random(seed)
        self.actors: list[Actor] = []
        self.full = False
        self.real = {"close": os.close, "flock": fcntl.flock}
        for name in ("open", "mkdir", "rename", "replace", "unlink", "scandir"):
            patch.setattr(os, name, self._paused(name, getattr(os, name)))
        # Before Python 3.12, its lock would block other actors, which stand for processes.
        patch.setattr(Run, "record", property(Run.record.func))
        patch.setattr(io, "open", self._opened(io.open))
        patch.setattr(os, "close", self._close)
        patch.setattr(fcntl, "flock", self._flock)

    def run(self) -> None:
        """Runs all actors until they end or are killed; the disk has space again at the end."""
        victim = self.draw.choice([None, *self.actors])
        last = self.draw.randrange(60)
        for actor in self.actors:
            actor.start()
        turns = 0
        while alive := [each for each in self.actors if not each.ended and not each.killed]:
            turns += 1
            assert turns < 5000, "they do not come to an end"
            self.full = self.draw.random() < 0.1 if turns < 200 else False
            if victim in alive and victim is not None and turns > last:
                victim.killed = True
                for descriptor in victim.descriptors:
                    self.real["close"](descriptor)
                continue
            self.draw.choice(alive).step()
        self.full = False

    def forget(self) -> None:
        """Ends the threads of killed actors."""
        for actor in self.actors:
            actor.killed = True
            actor.turn.release()
            actor.join(PATIENCE)

    def _paused(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            actor = threading.current_thread()
            if not isinstance(actor, Actor):
                return real(*arguments, **named)
            actor.pause()
            if self.full and name in _WRITES and not (name == "open"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
            found = real(*arguments, **named)
            if name == "open":
                actor.descriptors.add(found)
            return found

        return call

    def _opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            actor = threading.current_thread()
            if not isinstance(actor, Actor):
                return real(file, mode, *arguments, **named)
            actor.pause()
            found = real(file, mode, *arguments, **named)
            if "w" in mode:
                try:
                    actor.pause()  # a kill here leaves the file empty
                    if self.full:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
                except BaseException:
                    found.close()
                    raise
            return found

        return call

    def _close(self, descriptor: int) -> None:
        actor = threading.current_thread()
        if isinstance(actor, Actor):
            if actor.killed:
                return  # closed already, as by the kernel
            actor.descriptors.discard(descriptor)
        self.real["close"](descriptor)

    def _flock(self, descriptor: int, how: int) -> None:
        actor = threading.current_thread()
        while isinstance(actor, Actor):
            actor.pause()
            try:
                self.real["flock"](descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if how & fcntl.LOCK_NB:
                    raise
            else:
                return
        self.real["flock"](descriptor, how)


class Submission:
    """A run from its creation to its end, as a supervisor records it."""

    def __init__(self, store: RunStore, end: str) -> None:
        self.store, self.end = store, end
        self.states = States()
        self.begun: list[str] = []
        self.written = "queued"
        self.is_made = False
        self.actor: Actor | None = None

    def __call__(self) -> None:
        facts: dict[str, Any] = {"id": RUN, "name": "job", "target": "local", "created": 1.0}
        facts |= {"tasks": 1, "job_file": "job.yaml", "fairway": "0"}
        run, lock = self.store.create(RunRecord(**facts), {"job.json": "{}"})
        self.is_made = True
        for state in ("running", self.end):
            self.begun.append(state)
            self.states.write(run.folder / "state.json", RunState(state))
            if not self.states.late:
                self.written = state
        while self.states.late:
            self.states.write_late()
        self.written = self.end
        os.close(lock)

    def await_it(self) -> None:
        """Waits, in another actor, until the run exists or can no longer be created."""
        actor, submit = threading.current_thread(), self.actor
        assert isinstance(actor, Actor)
        assert submit is not None
        while not (self.is_made or submit.ended or submit.killed):
            actor.pause()


class Reader:
    """A command that lists all runs repeatedly, and must never see a false state."""

    def __init__(self, store: RunStore, submission: Submission) -> None:
        self.store, self.submission = store, submission
        self.seen: list[str] = []

    def __call__(self) -> None:
        self.submission.await_it()
        for _ in range(8):
            try:
                runs = self.store.all()
                found = [run.state for run in runs]
            except FileNotFoundError:
                continue  # it was removed just now
            for state in found:
                self._believe(state)

    def _believe(self, state: str) -> None:
        submit = self.submission.actor
        assert submit is not None
        if state == "lost":
            assert submit.killed, "a run that goes on, or has ended, is called lost"
        if state in FINAL_STATES - {"lost"}:
            assert state in self.submission.begun, "an end is told that there was not"
        if self.seen and self.seen[-1] in FINAL_STATES:
            assert state == self.seen[-1], "a run that had ended goes on"
        self.seen.append(state)


def clean(store: RunStore, submission: Submission) -> None:
    submission.await_it()
    submit = submission.actor
    assert submit is not None
    for _ in range(3):
        found = remove(store, removable(store)).runs
        assert not found or submit.ended or submit.killed, "a run that goes on was removed"


def add_tag(store: RunStore, tag: str, submission: Submission) -> None:
    submission.await_it()
    for _ in range(20):
        with suppress(UserError):  # not there yet, or the disk is full
            store.find(RUN).label([tag])
            return
    raise UserError.of("unknown-run", "it never came")


@pytest.mark.parametrize(
    "first", [*SEEDS[:2], *(pytest.param(each, marks=pytest.mark.nightly) for each in SEEDS[2:])]
)
def test_run_store_reports_true_states_under_any_order_of_commands(
    tmp_path: Path, first: int
) -> None:
    for seed in range(first, first + 100):
        with pytest.MonkeyPatch.context() as patch:
            world = World(seed, patch)
            try:
                check(RunStore(tmp_path / str(seed)), world, seed)
            finally:
                world.forget()


def check(store: RunStore, world: World, seed: int) -> None:
    """Runs one order, and checks the errors of all commands and the final state of the store."""
    submission = Submission(store, world.draw.choice(["succeeded", "failed", "cancelled"]))
    reader = Reader(store, submission)
    submit = Actor("submit", submission)
    submission.actor = submit
    tags = [Actor(f"tag {tag}", partial(add_tag, store, tag, submission)) for tag in ("a", "b")]
    world.actors = [submit, Actor("list", reader), *tags]
    if cleans := world.draw.random() < 0.3:
        world.actors.append(Actor("clean", partial(clean, store, submission)))
    world.run()

    for actor in world.actors:
        is_told = isinstance(actor.error, UserError) or actor.error is None
        assert is_told, (seed, actor.name, actor.error)
    runs = store.all()
    if not runs:
        assert cleans or not submission.is_made, (seed, "a run is gone")
        return
    (run,) = runs
    # Written last, or being written.
    begun = submission.begun
    possible = {submission.written, *begun[-1:]} if begun else {"queued"}
    true_states = {state if state in FINAL_STATES else "lost" for state in possible}
    assert run.state in true_states, (seed, run.state, begun)
    files = [file for file in run.folder.rglob("*.json") if not file.name.startswith(".")]
    assert all(isinstance(json.loads(file.read_text()), dict) for file in files), seed
    for actor, tag in zip(tags, ("a", "b"), strict=True):
        if actor.ended and actor.error is None:
            assert tag in Run(run.folder).tags, (seed, "a tag is gone")
