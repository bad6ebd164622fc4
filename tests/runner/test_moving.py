"""A run that may go to several targets: when it leaves one, and that it is never on two."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import record, state_files
from fairway_agent.run_state import RunState
from fairway_agent.task_state import TaskState
from fairway_core.findings import UserError
from fairway_runner.engines.refusals import Refused, Unavailable
from fairway_runner.runs import fallback, moving
from fairway_runner.runs.fallback import Fallback, Try
from fairway_runner.runs.folder import RunFolder
from fairway_runner.runs.refresh import refresh_all
from fairway_runner.runs.store import Run, RunRecord, RunStore
from fairway_runner.submit.resume import resume

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_core.target import Target

NAMES = ("nd", "spot", "a100")
KEPT = ("run.json", "target.json", "tasks.jsonl")
NO_NODES = RunState(reason="the pool cannot grow", tasks={"queued": 1}, no_capacity=True)


class Killed(BaseException):
    """The process ends here."""


@dataclass
class World:
    """What all targets have: the runs that live on each, what each says of a run that it has, and
    what each does instead of taking one. `left` counts the steps until this process is killed."""

    says: dict[str, RunState] = field(default_factory=dict)
    raises: dict[str, Exception] = field(default_factory=dict)
    cancelled: dict[str, str] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    live: dict[str, bool] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    now: float = 1000.0
    left: int | None = None

    def step(self) -> None:
        """Something that is done; the process may be killed before and after it."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


@dataclass
class Engine:
    """One target."""

    target: Target
    world: World
    deadline: float = 600.0
    pause: float = 0.0

    def nodes(self) -> list[object]:
        if error := self.world.raises.get(f"ask {self.target.name}"):
            raise error
        return []

    def start(self, run: RunFolder, lock: int, snapshot: Path, _: dict[str, str]) -> None:
        os.close(lock)
        name = self.target.name
        assert json.loads((run.folder / "target.json").read_text())["name"] == name
        assert RunFolder(run.folder).record.target == name
        assert snapshot.name == "c" * 16
        self.world.step()
        error = self.world.raises.get(name)
        if isinstance(error, Unavailable):
            raise error
        (run.folder / "engine.json").write_text(json.dumps({"on": name}))
        self.world.step()
        if error:
            raise error
        if not self.world.live.get(name):
            assert not any(self.world.live.values()), "it lives on another target"
            self.world.live[name] = True
            self.world.starts.append(name)
        self.world.step()

    def refresh(self, runs: list[RunFolder], *, logs: bool = False) -> None:
        assert not logs
        self.world.step()
        [run] = runs
        assert RunFolder(run.folder).record.target == self.target.name, "it was asked elsewhere"
        known = state_files.read_run(run.folder)
        if known is not None and not known.is_final:
            default = RunState("succeeded", tasks={"succeeded": 1})
            state_files.write(run.folder, self.world.says.get(self.target.name, default))

    def cancel(self, run: RunFolder) -> None:
        self.world.step()
        if error := self.world.raises.get(f"cancel {self.target.name}"):
            raise error
        state = self.world.cancelled.get(self.target.name, "cancelled")
        self.world.live[self.target.name] = state == "running"
        began, tasks = self.world.began.get(self.target.name), {state: 1}
        # Of a job that never ran, too, a scheduler may name a start: that of its end.
        known = RunState(state, started=self.world.now, ended=self.world.now, tasks=tasks)
        state_files.write(run.folder, known)
        task = run.task_folder(0)
        task.mkdir(parents=True, exist_ok=True)
        state_files.write(task, TaskState(state, started=began, ended=self.world.now))
        self.world.step()

    def remove(self, run: RunFolder) -> None:
        self.world.step()
        assert RunFolder(run.folder).record.target == self.target.name
        assert not self.world.live.get(self.target.name)
        self.world.removed.append(self.target.name)
        self.world.step()

    def wait(self, run: RunFolder) -> None:
        self.refresh([run])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def engine_for(target: Target, deadline: float | None = None) -> Engine:
        return Engine(target, world)

    monkeypatch.setattr(moving, "engine_for", engine_for)
    monkeypatch.setattr("fairway_runner.engines.engine.engine_for", engine_for)
    monkeypatch.setattr(moving, "_now", lambda: world.now)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # power does not fail here
    return world


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Run]:
    """Makes a run that may go to these targets, of which none has it yet."""

    def files(name: str) -> dict[str, str]:
        target = {"name": name, "engine": "batch", "nodes": {"min": 0, "max": 4}}
        made = RunRecord("job-1", "job", name, 1.0, 1, "job.yaml", "0", engine="batch")
        return {
            "run.json": json.dumps(made.__dict__),
            "target.json": json.dumps({**target, "batch": {"pool": name}}),
            "tasks.jsonl": json.dumps({"for": name}),
        }

    def run(names: tuple[str, ...] = NAMES, patience: float | None = None) -> Run:
        first, *others = names
        state = Fallback("starting", (Try(first, 1000.0),), tuple(others), patience, "digest")
        texts = {
            **files(first),
            "fallback.json": state.text(),
            "provenance.json": json.dumps({"code": "c" * 64}),
        }
        for name in others:
            for each, text in files(name).items():
                texts[fallback.next_file(name, each)] = text
        made = RunRecord("job-1", "job", first, 1.0, 1, "job.yaml", "0", engine="batch")
        made_run, lock = RunStore(tmp_path / ".fairway").create(made, texts)
        os.close(lock)
        return Run(made_run.folder)

    return run


def settled(run: Run) -> Run:
    """The run as another command finds it, once it goes nowhere any more."""
    run.wait()
    return Run(run.folder)


def tried(run: Run) -> list[tuple[str, str | None]]:
    found = fallback.read(run.folder)
    assert found is not None
    return [(each.target, each.reason) for each in found.tries]


def test_a_target_without_capacity_is_left_at_once(world: World, make: Callable[..., Run]) -> None:
    world.says = {"nd": NO_NODES, "spot": NO_NODES}
    run = settled(make())
    assert (run.record.target, run.state) == ("a100", "succeeded")
    assert world.starts == ["nd", "spot", "a100"]
    assert world.removed == ["nd", "spot"]
    why = "the pool cannot grow"
    assert tried(run) == [("nd", why), ("spot", why), ("a100", None)]
    assert json.loads((run.folder / "tasks.jsonl").read_text()) == {"for": "a100"}
    assert not (run.folder / "targets").exists()


def test_a_target_that_takes_the_run_keeps_it(world: World, make: Callable[..., Run]) -> None:
    world.says = {"nd": RunState("running", started=1001.0, tasks={"running": 1})}
    run = make(patience=5.0)
    run.follow()
    world.now += 10.0
    run.follow()
    assert not fallback.is_open(run.folder)
    assert world.starts == ["nd"]


def test_a_run_that_began_and_waits_again_stays(world: World, make: Callable[..., Run]) -> None:
    """Its node was taken away: what it has done is where it is."""
    world.says = {"nd": RunState(reason="its nodes went", started=1001.0, no_capacity=True)}
    run = make(patience=5.0)
    world.now += 10.0
    run.follow()
    assert tried(run) == [("nd", None)]
    assert not fallback.is_open(run.folder)


class TestPatience:
    """By the clock of the machine, whatever command looks."""

    WAITS = RunState(reason="waiting for nodes", tasks={"queued": 1})

    @pytest.mark.integration
    def test_a_run_stays_until_it_is_over(self, world: World, make: Callable[..., Run]) -> None:
        world.says = {"nd": self.WAITS, "spot": self.WAITS, "a100": self.WAITS}
        run = make(patience=1800.0)
        run.follow()
        world.now += 1799.0
        run.follow()
        assert (run.record.target, world.starts) == ("nd", ["nd"])
        world.now += 1.0
        run.follow()
        assert (run.record.target, world.starts) == ("spot", ["nd", "spot"])
        assert tried(run)[0][1] == "it has not started there within 30m00s: waiting for nodes"
        world.now += 1799.0
        Run(run.folder).follow()
        assert world.starts == ["nd", "spot"]
        world.now += 1.0
        Run(run.folder).follow()
        assert world.starts == ["nd", "spot", "a100"]

    def test_it_waits_for_ever_on_the_last(self, world: World, make: Callable[..., Run]) -> None:
        world.says = {"nd": NO_NODES, "spot": NO_NODES}
        run = make(NAMES[:2], patience=1.0)
        run.follow()
        world.now += 1e6
        run.follow()
        run.follow()
        assert (run.record.target, run.state) == ("spot", "queued")
        assert world.starts == ["nd", "spot"]

    def test_without_one_only_capacity_moves_it(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.says = {"nd": self.WAITS}
        run = make()
        run.follow()
        world.now += 1e6
        run.follow()
        assert world.starts == ["nd"]
        assert fallback.is_open(run.folder)


class TestRefusals:
    """Targets that do not take it."""

    def test_the_next_one_does(self, world: World, make: Callable[..., Run]) -> None:
        world.raises = {"nd": Refused.of("refused-job", "Slurm refuses the job: no")}
        run = settled(make())
        assert world.starts == ["spot"]
        assert tried(run) == [("nd", "Slurm refuses the job: no"), ("spot", None)]

    def test_one_that_cannot_be_asked_is_sent_nothing(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        away = UserError.of("no-connection", "no connection to nd", exit_code=5)
        world.raises = {"ask nd": away, "nd": AssertionError("it was sent there")}
        settled(make())
        assert world.starts == ["spot"]
        assert world.removed == []

    def test_one_that_went_silent_meanwhile_may_have_it(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.raises = {"nd": UserError.of("no-connection", "the line broke", exit_code=5)}
        run = make()
        with pytest.raises(UserError, match="the line broke"), fallback.moving(run.folder):
            moving.advance(run)
        assert (run.record.target, world.starts) == ("nd", [])
        world.raises = {}
        settled(run)
        assert world.starts == ["nd"]

    def test_where_none_takes_it_all_are_named(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.raises = {name: Unavailable.of("refused", f"{name} is full") for name in NAMES}
        run = make()
        with pytest.raises(Unavailable) as caught, fallback.moving(run.folder):
            moving.advance(run)
        said = [finding.message for finding in caught.value.findings]
        assert said[0] == "a100 is full"
        assert "`nd` was tried before: nd is full" in said
        assert "`spot` was tried before: spot is full" in said

    def test_a_run_that_is_followed_has_failed_then(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.says = {"nd": NO_NODES}
        world.raises = {"spot": Unavailable.of("refused", "spot is full")}
        run = settled(make(NAMES[:2]))
        assert (run.state, run.status.reason) == ("failed", "no target accepts it: spot is full")
        assert run.exit_code == 5
        world.raises = {}
        resume(run)
        assert (world.starts, Run(run.folder).state) == (["nd"], "failed")


class TestLeaving:
    """A run that is cancelled on a target has ended there before it goes on."""

    def test_one_that_ended_by_itself_stays(self, world: World, make: Callable[..., Run]) -> None:
        world.says, world.cancelled = {"nd": NO_NODES}, {"nd": "succeeded"}
        run = settled(make())
        assert (run.record.target, run.state) == ("nd", "succeeded")
        assert tried(run) == [("nd", None)]

    def test_one_that_is_lost_there_stays(self, world: World, make: Callable[..., Run]) -> None:
        """Nobody saw it end: it may go on."""
        world.says, world.cancelled = {"nd": NO_NODES}, {"nd": "lost"}
        run = settled(make())
        assert (run.record.target, run.state, world.starts) == ("nd", "lost", ["nd"])
        assert tried(run) == [("nd", None)]

    def test_one_that_does_not_end_goes_nowhere(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.says, world.cancelled = {"nd": NO_NODES}, {"nd": "running"}
        run = make()
        with pytest.raises(UserError, match="was cancelled on nd, and is still running there"):
            run.follow()
        assert world.starts == ["nd"]
        world.cancelled = {}
        settled(run)
        assert world.starts == ["nd", "spot"]

    def test_on_its_way_it_is_queued_for_all_who_look(
        self, world: World, make: Callable[..., Run]
    ) -> None:
        world.says, world.cancelled = {"nd": NO_NODES}, {"nd": "running"}
        run = make()
        with pytest.raises(UserError, match="still running"):
            run.follow()
        state_files.write(run.folder, RunState("cancelled"))
        found = Run(run.folder)
        assert found.state == "queued"
        assert (
            found.status.reason
            == f"it is moving from nd to spot; continue with: fairway wait {run.id}"
        )
        found.refresh()
        assert refresh_all([found]) == []
        assert found.state == "queued"

    @pytest.mark.integration
    def test_a_person_who_cancels_it_ends_it(
        self, world: World, make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        killable(world, monkeypatch)
        for steps in range(200):
            world.left, world.says = steps, {"nd": NO_NODES, "spot": NO_NODES}
            world.starts, world.live = [], {}
            run = make()
            was_killed = _killed_at_a_step(run)
            world.left = None
            if not was_killed:
                break
            Run(run.folder).cancel()
            assert Run(run.folder).state == "cancelled"
            assert not any(world.live.values())
            before = list(world.starts)
            Run(run.folder).wait()
            resume(Run(run.folder))
            assert world.starts == before
            assert Run(run.folder).state == "cancelled"
            parts = [json.loads((run.folder / name).read_text()) for name in KEPT]
            assert (
                len({each.get("for") or each.get("target") or each["name"] for each in parts}) == 1
            )
            moving.shutil.rmtree(run.folder)
        assert steps > 60

    @pytest.mark.integration
    def test_one_that_began_when_it_was_to_leave_is_not_begun_again_elsewhere(
        self, world: World, make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its target took it between the last look and the cancel: it has done a part there."""
        killable(world, monkeypatch)
        for steps in range(200):
            world.left, world.says, world.began = None, {"nd": NO_NODES}, {"nd": 1001.0}
            world.starts, world.live = [], {}
            run = make()
            world.left = steps
            was_killed = _killed_at_a_step(run)
            world.left = None
            end = settled(run)
            assert (end.record.target, end.state, world.starts) == ("nd", "cancelled", ["nd"])
            assert end.status.reason == (
                "it started on nd just before it was to leave, and was cancelled there; "
                f"run it there again: fairway retry {run.id}"
            )
            assert tried(end) == [("nd", None)]
            assert not fallback.is_open(run.folder)
            moving.shutil.rmtree(run.folder)
            if not was_killed:
                break
        assert steps > 20


AWAY = UserError.of("no-connection", "nd does not answer", exit_code=5)


class TestCancelWhileAway:
    """A person cancels a run whose target does not answer."""

    @pytest.mark.parametrize("phase", ["starting", "on", "leaving"])
    def test_it_is_remembered_and_done_by_who_follows(
        self, world: World, make: Callable[..., Run], phase: str
    ) -> None:
        run = make()
        world.says = {"nd": RunState(reason="waits", tasks={"queued": 1})}
        if phase == "starting":  # the line broke while it was sent: the target may have it
            world.raises = {"nd": AWAY}
            with pytest.raises(UserError, match="does not answer"):
                run.follow()
        elif phase == "on":
            run.follow()
        else:
            world.says, world.raises = {"nd": NO_NODES}, {"cancel nd": AWAY}
            with pytest.raises(UserError, match="does not answer"):
                run.follow()
        found = fallback.read(run.folder)
        assert found is not None
        assert found.phase == phase
        world.raises["cancel nd"] = AWAY
        with pytest.raises(UserError) as caught:
            Run(run.folder).cancel()
        assert caught.value.exit_code == 5
        *_, noted = caught.value.findings
        assert (
            noted.message == f"{run.id} is to be cancelled on nd, and will not go to another target"
        )
        assert noted.hint == f"repeat it once the target answers: fairway cancel {run.id}"

        seen = Run(run.folder)
        assert seen.state == "queued"
        assert seen.status.reason == (
            f"it is to be cancelled on nd; continue with: fairway cancel {run.id}"
        )
        # Neither who follows it nor who completes its submission sends it anywhere.
        world.says, before = {"nd": NO_NODES}, list(world.starts)
        for command in (lambda: Run(run.folder).follow(), lambda: resume(Run(run.folder))):
            with pytest.raises(UserError, match="does not answer"):
                command()
        world.raises = {}
        assert settled(run).state == "cancelled"
        assert world.starts == before
        assert not any(world.live.values())
        assert not fallback.is_open(run.folder)

    def test_it_is_done_by_the_next_cancel(self, world: World, make: Callable[..., Run]) -> None:
        world.says = {"nd": RunState(reason="waits", tasks={"queued": 1})}
        run = make()
        run.follow()
        world.raises = {"cancel nd": AWAY}
        with pytest.raises(UserError, match="does not answer"):
            run.cancel()
        world.raises = {}
        Run(run.folder).cancel()
        assert Run(run.folder).state == "cancelled"
        assert Run(run.folder).status.reason is None

    @pytest.mark.usefixtures("world")
    def test_a_record_of_the_release_before_says_nothing_of_it(
        self, make: Callable[..., Run]
    ) -> None:
        run = make()
        path = run.folder / fallback.FILE
        facts = json.loads(path.read_text())
        del facts["cancelled"]
        path.write_text(json.dumps(facts))
        assert settled(run).state == "succeeded"


def killable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the process be killed before and after each change to a folder too."""

    def around(module: object, name: str) -> None:
        original = getattr(module, name)

        def step(*words: Any, **more: Any) -> Any:
            world.step()
            found = original(*words, **more)
            world.step()
            return found

        monkeypatch.setattr(module, name, step)

    around(record, "write_bytes")
    around(record, "write_json")
    around(moving.shutil, "rmtree")
    around(Path, "replace")
    around(Path, "unlink")


def _killed_at_a_step(run: Run) -> bool:
    """Follows a run until this process is killed; whether it was."""
    try:
        Run(run.folder).wait()
    except Killed:
        return True
    return False


@pytest.mark.integration
def test_killed_anywhere_it_starts_once_on_each_target(
    world: World, make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL before and after each thing that is done; then another command follows the run."""
    killable(world, monkeypatch)
    killed = 0
    for steps in range(1000):
        world.left = None
        world.says, world.starts, world.live = {"nd": NO_NODES, "spot": NO_NODES}, [], {}
        run = make()
        world.left = steps
        was_killed = _killed_at_a_step(run)
        world.left = None
        end = settled(run)
        assert world.starts == ["nd", "spot", "a100"], f"killed after {steps} steps"
        assert (end.record.target, end.state) == ("a100", "succeeded")
        assert json.loads((end.folder / "tasks.jsonl").read_text()) == {"for": "a100"}
        assert len(tried(end)) == 3
        moving.shutil.rmtree(run.folder)
        if not was_killed:
            break
        killed += 1
    assert killed > 60


def test_two_commands_do_not_move_it_at_once(world: World, make: Callable[..., Run]) -> None:
    world.says = {"nd": NO_NODES}
    run = make()
    run.follow()
    with fallback.moving(run.folder) as first:
        assert first
        with fallback.moving(run.folder) as second:
            assert not second
        Run(run.folder).follow()  # left to the other
        with fallback.staying(run.folder) as stays:
            assert not stays


def test_a_command_that_looked_before_asks_where_it_is_now(
    world: World, make: Callable[..., Run]
) -> None:
    world.says = {"nd": NO_NODES, "spot": RunState(reason="waits", tasks={"queued": 1})}
    run = make()
    other = Run(run.folder)
    assert (other.record.target, other.engine.target.name) == ("nd", "nd")
    run.follow()
    other.refresh()
    assert (other.record.target, other.engine.target.name) == ("spot", "spot")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"phase": "elsewhere"}, "`phase` of the fallback is elsewhere"),
        ({"tries": []}, "`tries` of the fallback is"),
        ({"tries": [{"target": "nd"}]}, "`began` of a try is missing"),
        ({"left": ["../../x"]}, "`left` of the fallback is"),
        ({"left": [], "phase": "left"}, "`left` of the fallback is"),
        ({"patience": "soon"}, "`patience` of the fallback is soon"),
        ({"cancelled": "yes"}, "`cancelled` of the fallback is yes"),
    ],
)
def test_a_damaged_record_is_named(
    make: Callable[..., Run], change: dict[str, Any], said: str
) -> None:
    run = make()
    path = run.folder / "fallback.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError) as caught:
        run.follow()
    assert said in str(caught.value)
