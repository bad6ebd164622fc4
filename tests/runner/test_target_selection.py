"""Choice of a job's target by the job, the command line and the answers of the targets."""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import refused
from programs import executable
from running import MakeRun

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.outage import RunRefused, TargetUnavailable, Unavailable
from fairway_runner.engines.ssh import SshEngine
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.folder import RunFolder
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.view import target_facts
from fairway_runner.submit.prepare import PreparedRun
from fairway_runner.submit.submission import prepare_submission, submit
from fairway_runner.submit.target_selection import PASSED, prepare_for, select_targets

NAMES = ("nd", "spot", "a100")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three clusters reached by ssh, as the current folder."""
    monkeypatch.chdir(tmp_path)
    _declare(tmp_path)
    return tmp_path


def _declare(folder: Path, **changes: dict[str, Any]) -> None:
    targets = [
        {
            "name": name,
            "engine": "ssh",
            "nodes": {"min": 2, "max": 2},
            "mounts": {"data": f"/mnt/{name}"},
            "ssh": {"host": f"{name}.example", "user": "me", "shared": "/data"},
            **changes.get(name, {}),
        }
        for name in NAMES
    ]
    (folder / ".fairway").mkdir(exist_ok=True)
    (folder / ".fairway" / "targets.json").write_text(json.dumps(targets))


def _job(folder: Path, **fields: Any) -> JobFile:
    path = folder / "job.yaml"
    path.write_text(json.dumps({"name": "a", "command": "true", "template": "plain", **fields}))
    return load_job(path)


def _choose(folder: Path, *names: str, **fields: Any) -> tuple[str, ...]:
    targets, _ = select_targets(_job(folder, **fields), names)
    return tuple(target.name for target in targets)


def _prepare(folder: Path, *names: str, asks: bool = True, **fields: Any) -> PreparedRun:
    return prepare_for(_job(folder, **fields), names, RunStore.here(), copies=True, asks=asks)


class TestChoosing:
    """Precedence of the command line over the job, and of the job over `local`."""

    @pytest.mark.parametrize(
        ("said", "words", "names"),
        [
            ({}, (), ("local",)),
            ({"target": "nd"}, (), ("nd",)),
            ({"target": None}, (), ("local",)),
            ({"target": ["spot", "nd"]}, (), ("spot", "nd")),
            ({"target": {"in_order": ["a100", "nd"]}}, (), ("a100", "nd")),
            ({"target": {"in_order": ["nd", "a100"]}}, ("spot",), ("spot",)),
            ({}, ("nd", "local"), ("nd", "local")),
        ],
    )
    def test_target_choice_prefers_the_command_line_then_the_job_then_local(
        self, project: Path, said: dict[str, Any], words: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        assert _choose(project, *words, **said) == names

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ([], "this names no target"),
            (["nd", "nd"], "`nd` is there twice"),
            ("-x", "this is not a target's name"),
            (["nd", "../x"], "this is not a target's name"),
            (3, "expected text or a list or a mapping, found the number 3"),
            ({"in_orde": ["nd"]}, "unknown key `in_orde`"),
            ({"in_order": ["nd"], "patience": "30m"}, "a run stays on the target that it was"),
            ({}, "give either `in_order` or `cheapest`"),
            ({"in_order": ["nd"], "cheapest": ["nd"]}, "give either"),
            ({"in_order": ["nd"], "by": "price"}, "`by` has no effect with `in_order`"),
            ({"cheapest": ["nd"], "by": "speed"}, "`speed` is not an order"),
            ({"cheapest": ["nd"], "by": "price/"}, "`price/` is not an order"),
            ({"cheapest": []}, "this names no target"),
        ],
    )
    def test_target_choice_mistake_is_refused_at_its_line(
        self, project: Path, target: Any, said: str
    ) -> None:
        finding = refused(lambda: _choose(project, target=target), code=2)
        assert said in f"{finding.message} {finding.hint}"
        assert "value error" not in finding.message
        assert finding.location is not None

    @pytest.mark.parametrize(
        ("target", "places"),
        [
            ("gpu", {"gpu"}),
            (["nd", "gpu", "x1"], {"gpu", "x1"}),
            ({"in_order": ["gpu", "nd"]}, {"gpu"}),
            ({"cheapest": ["nd", "x1"], "in_order": None}, {"x1"}),
        ],
    )
    def test_target_choice_names_each_unknown_target_at_its_position(
        self, project: Path, target: Any, places: set[str]
    ) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, target=target)
        shown = set()
        for finding in caught.value.findings:
            place = finding.location
            shown.add(place.text[place.column : place.column + place.length - 2])
            assert finding.hint.startswith("one of: a100, local, nd, spot\n")
            assert "fairway targets sync" in finding.hint
        assert shown == places

    def test_target_choice_on_the_command_line_has_no_location_in_the_job(
        self, project: Path
    ) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, "gpu", "x1", target="nd")
        assert [each.location for each in caught.value.findings] == [None, None]
        said = [each.message for each in caught.value.findings]
        assert said == ["there is no target `gpu`", "there is no target `x1`"]


class TestPreparing:
    """Errors on any of the targets, reported before anything is written."""

    @pytest.fixture(autouse=True)
    def _room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SshEngine, "no_capacity", lambda *_: "")

    def test_target_list_prepares_each_target_that_has_a_host(self, project: Path) -> None:
        first = _prepare(project, *NAMES, inputs={"words": "data:/words"})
        for name, made in zip(NAMES, (first, *first.others), strict=True):
            assert (made.record.id, made.record.target) == (first.record.id, name)
            files = made.all_files()
            plan = json.loads(str(files["plan.json"]))
            assert plan["environment"]["FAIRWAY_INPUT_WORDS"] == f"/mnt/{name}/words"
            assert json.loads(str(files["target.json"]))["name"] == name
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES, nodes=0)
        assert len(caught.value.findings) == 1
        _declare(project, spot={"mounts": {}}, a100={"nodes": {"min": 1, "max": 1}})
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES, inputs={"words": "data:/words"})
        assert "the target `spot` has no mount `data`" in str(caught.value)
        _declare(project, a100={"nodes": {"min": 1, "max": 1}})
        refused(lambda: _prepare(project, *NAMES, nodes=2), "needs 2 nodes, and `a100` has 1")
        assert not (project / ".fairway" / "runs").exists()
        _declare(project, nd={"ssh": {"host": "", "user": "me", "shared": "/data"}})
        prepared = _prepare(project, *NAMES)
        assert prepared.record.target == "spot"
        assert [each.record.target for each in prepared.others] == ["a100"]
        assert [each.record.target for each in prepared.passed] == ["nd"]
        [(name, why)] = prepared.provenance[PASSED].items()
        assert (name, why.startswith("`nd` has no address")) == ("nd", True)
        assert [each.id for each in prepared.warnings] == ["passed-over"]

    def test_target_list_reports_each_target_that_is_not_available(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def require(engine: SshEngine, *_: object) -> None:
            message = f"{engine.target.name} does not answer"
            raise TargetUnavailable.of("no-connection", message, exit_code=5)

        monkeypatch.setattr(SshEngine, "require", require)
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES)
        said = [finding.message for finding in caught.value.findings]
        assert said == [f"{name} does not answer" for name in NAMES]
        assert caught.value.exit_code == 5

    def test_target_list_is_not_asked_for_capacity_if_asks_is_false(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(SshEngine, "no_capacity", lambda *_: pytest.fail("asked"))
        assert _prepare(project, *NAMES, asks=False).record.target == "nd"


def _state(available: str, *states: str) -> Any:
    nodes = [SimpleNamespace(state=state) for state in states]
    return SimpleNamespace(health=SimpleNamespace(available=available), nodes=nodes)


def _announced(*fresh: bool) -> Any:
    return SimpleNamespace(nodes=[SimpleNamespace(fresh=each, reason="") for each in fresh])


_SHARED = {"host": "h", "user": "u", "shared": "/s"}
_SLURM = {"slurm": {**_SHARED, "partition": "p"}}
_CLUSTER = {"namespace": "n", "image": "i:1", "shared": "/data/s", "volumes": {"data": "c"}}
_KUBERNETES = {"kubernetes": {**_CLUSTER, "queue": "q"}}


@pytest.mark.parametrize(
    ("access", "look", "said"),
    [
        ({"ssh": _SHARED}, _announced(True, True), ""),
        ({"ssh": _SHARED}, _announced(True, False), "the job needs 2 nodes, and 1 are up"),
        (_SLURM, _state("up", "idle", "alloc"), ""),
        (_SLURM, _state("down", "idle", "idle"), "the partition is down"),
        (_SLURM, _state("up", "idle", "drained*"), "the job needs 2 nodes, and 1 are fit"),
        (_KUBERNETES, SimpleNamespace(health=SimpleNamespace(queue="")), ""),
        (
            _KUBERNETES,
            SimpleNamespace(health=SimpleNamespace(queue="it is not active")),
            "its queue admits nothing: it is not active",
        ),
    ],
)
def test_target_capacity_is_derived_from_the_state_of_the_target(
    monkeypatch: pytest.MonkeyPatch, access: dict[str, Any], look: Any, said: str
) -> None:
    [engine] = access
    facts = {"name": "nd", "engine": engine, "mounts": {"data": "/data"}, **access}
    facts["nodes"] = {"min": 0, "max": 2}
    asked = engine_for(Target.model_validate(facts))
    monkeypatch.setattr(type(asked), "look", lambda *_, **__: look)
    assert asked.no_capacity(Job(name="a", command="true", nodes=2)) == said


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("ssh: connect to host 127.0.0.1 port 22: Connection refused", "local"),
        ("me@127.0.0.1: Permission denied (publickey).", ""),
        ("Host key verification failed.", ""),
    ],
)
def test_target_list_passes_over_a_tunnel_that_is_down_but_no_refused_sign_in(
    project: Path, programs: Path, said: str, target: str
) -> None:
    executable(programs / "ssh", f"echo '{said}' >&2; exit 255")
    _declare(project, nd={"ssh": {"host": "127.0.0.1", "user": "me", "shared": "/data"}})
    prepared = _prepare(project, "nd", "local")
    why = f"me@127.0.0.1 cannot be reached: {said}"
    if target:
        assert prepared.record.target == target
        assert prepared.provenance[PASSED] == {"nd": why}
    else:
        assert prepared.record.target == "nd"
        with pytest.raises(UserError, match=re.escape(why)):
            submit(prepared, RunStore.here())


class Killed(BaseException):
    """A stand-in for `kill -9` of this process."""


@dataclass
class World:
    """All targets: why some have no capacity, the errors that they raise instead of taking a run,
    and those that took the run. `left` counts the steps until this process is killed."""

    full: dict[str, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    raises: dict[str, UserError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    took: list[str] = field(default_factory=list)
    left: int | None = None

    def be(self, full: str = "", away: str = "", refusing: str = "", broken: str = "") -> None:
        """Sets which targets are full, do not answer, refuse a run, or break from now on."""
        self.full = {name: f"{name} is full" for name in full.split()}
        self.away = set(away.split())
        self.raises = {name: RunRefused.of("r", f"{name} refuses") for name in refusing.split()}
        self.raises |= {name: Unavailable.of("r", f"{name} breaks") for name in broken.split()}

    def step(self) -> None:
        """Marks the time between two actions, at which the process may be killed."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def no_capacity(self, name: str) -> str:
        self.asked.append(name)
        if name in self.away:
            raise TargetUnavailable.of("no-connection", f"{name} does not answer", exit_code=5)
        return self.full.get(name, "")

    def start(self, run: RunFolder, lock: int) -> None:
        try:
            self.step()
            name = RunFolder(run.folder).record.target
            assert json.loads((run.folder / "target.json").read_text())["name"] == name
            if isinstance(error := self.raises.get(name), Unavailable):
                raise error
            (run.folder / "engine.json").write_text("{}")
            self.step()
            if error:
                raise error
            if name not in self.took:  # a target takes the same run id once
                self.took.append(name)
            self.step()
        finally:
            os.close(lock)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, project: Path) -> World:
    """The targets of the project."""
    assert project.is_dir()
    world = World()
    monkeypatch.setattr(
        SshEngine, "no_capacity", lambda engine, _: world.no_capacity(engine.target.name)
    )
    monkeypatch.setattr(SshEngine, "begin_connection", lambda _: None)
    monkeypatch.setattr(SshEngine, "start", lambda _, run, lock, *__: world.start(run, lock))
    return world


def _submit(folder: Path, names: tuple[str, ...] = NAMES, **fields: Any) -> Run:
    job_file, store = _job(folder, **fields), RunStore.here()
    return submit(prepare_submission(job_file, store, names, run_id="mine", tags=["t"]), store)


class TestStarting:
    """Start of a run on the first target that has capacity and takes it, and on no other."""

    @pytest.mark.parametrize(
        ("given", "took", "passed"),
        [
            ({"full": "nd"}, "spot", ["nd is full"]),
            ({"away": "nd spot"}, "a100", ["nd does not answer", "spot does not answer"]),
            ({"full": "spot a100", "away": "nd"}, "spot", ["nd does not answer", "a100 is full"]),
            ({"refusing": "nd spot"}, "a100", ["nd refuses", "spot refuses"]),
            ({"broken": "nd spot"}, "a100", ["nd breaks", "spot breaks"]),
            ({"refusing": "nd", "away": "spot"}, "a100", ["nd refuses", "spot does not answer"]),
        ],
    )
    def test_fallback_goes_to_the_first_target_that_takes_the_run(
        self,
        project: Path,
        world: World,
        caplog: pytest.LogCaptureFixture,
        given: dict[str, str],
        took: str,
        passed: list[str],
    ) -> None:
        world.be(**given)
        run = _submit(project)
        if given == {"refusing": "nd spot"}:  # reasons known before the start are warnings
            assert caplog.messages == [
                f"`{why.split()[0]}` was passed over: {why}" for why in passed
            ]
        assert (world.took, run.record.target, run.tags) == ([took], took, ("t",))
        assert target_facts(run)["passed_over"] == {why.split()[0]: why for why in passed}

    @pytest.mark.parametrize(
        ("given", "kind", "said"),
        [
            ({"away": "nd spot a100"}, TargetUnavailable, [f"{n} does not answer" for n in NAMES]),
            (
                {"refusing": "nd spot a100"},
                RunRefused,
                ["a100 refuses", "nd refuses", "spot refuses"],
            ),
            ({"broken": "nd spot a100"}, Unavailable, ["a100 breaks", "nd breaks", "spot breaks"]),
            (
                *({"refusing": "nd", "away": "spot a100"}, TargetUnavailable),
                ["spot does not answer", "a100 does not answer", "nd refuses"],
            ),
        ],
    )
    def test_fallback_that_no_target_takes_names_each_and_records_no_run(
        self, project: Path, world: World, given: dict[str, str], kind: Any, said: list[str]
    ) -> None:
        world.be(**given)
        with pytest.raises(kind) as caught:
            _submit(project)
        found = [finding.message for finding in caught.value.findings]
        assert [each.partition(" was passed over: ")[2] or each for each in found] == said
        assert (caught.value.exit_code == 5) is ("away" in given)
        assert not (project / ".fairway" / "runs" / "mine").exists()

    def test_fallback_stays_with_a_target_that_lost_connection_during_submission(
        self, project: Path, world: World
    ) -> None:
        world.raises = {"nd": TargetUnavailable.of("no-connection", "the line broke", exit_code=5)}
        with pytest.raises(UserError, match="the line broke"):
            _submit(project)
        world.be("nd")
        assert _submit(project).record.target == "nd"
        assert world.took == ["nd"]

    def test_fallback_of_a_repeated_submission_returns_the_same_run(
        self, project: Path, world: World
    ) -> None:
        world.be("nd")
        assert _submit(project).record.target == "spot"
        assert world.asked == ["nd", "spot"]
        world.be()
        assert _submit(project).record.target == "spot"
        assert _submit(project, ("spot",)).record.target == "spot"
        for names, fields in (((NAMES), {"env": {"A": "1"}}), (("nd", "a100"), {})):
            with pytest.raises(UserError, match="the run `mine` is of another job"):
                _submit(project, names, **fields)
        assert world.took == ["spot"]

    @pytest.mark.parametrize("steps", range(8))
    def test_fallback_that_is_killed_at_any_step_starts_the_run_once(
        self, project: Path, world: World, steps: int
    ) -> None:
        world.be(refusing="nd")
        world.left = steps
        with suppress(Killed):
            _submit(project)
        world.left = None
        assert _submit(project).record.target == "spot"
        assert world.took == ["spot"]


class TestCheapest:
    """Order of targets by cost, with figures computed by hand."""

    PRICES = {"nd": {"price": 98.0}, "spot": {"price": 30.0}, "a100": {"price": 60.0}}  # noqa: RUF012
    METRICS = {"images_per_second": "rate=([0-9.]+)"}  # noqa: RUF012

    @pytest.fixture
    def known(self, project: Path) -> Callable[..., None]:
        """Function that makes runs on the targets, which have prices. Each run printed the given
        images per second on the given number of nodes."""
        _declare(project, **self.PRICES)

        def make(make_run: MakeRun, runs: Mapping[str, tuple[float, int]], state: str) -> None:
            for number, (target, (rate, nodes)) in enumerate(runs.items()):
                task = {"log": f"rate={rate}\n", "nodes": nodes, "state": state}
                facts = {"target": target, "metrics": self.METRICS, "created": 1e9 + number}
                make_run(f"a-{target}{state}", [task], state, **facts)

        return make

    def order(self, project: Path, by: str | None = None) -> tuple[str, ...]:
        where = {"cheapest": list(NAMES), **({"by": by} if by else {})}
        return _choose(project, target=where, metrics=self.METRICS, nodes=2)

    @pytest.mark.parametrize("by", [None, "price"])
    def test_cheapest_orders_targets_by_price(self, project: Path, by: str | None) -> None:
        _declare(project, **self.PRICES)
        assert self.order(project, by) == ("spot", "a100", "nd")

    def test_cheapest_orders_targets_by_price_per_metric(
        self, project: Path, known: Callable[..., None], make_run: MakeRun
    ) -> None:
        # For a million images: 98 / 4900 = 0.020, 30 / 1000 = 0.030, 60 / (8000 / 2) = 0.015.
        runs = {"nd": (4900.0, 1), "spot": (1000.0, 1), "a100": (8000.0, 2)}
        known(make_run, runs, "succeeded")
        assert self.order(project, "price/images_per_second") == ("a100", "nd", "spot")
        assert select_targets(load_job(project / "job.yaml"))[1] == []

    def test_cheapest_puts_targets_without_a_successful_run_last(
        self, project: Path, known: Callable[..., None], make_run: MakeRun
    ) -> None:
        known(make_run, {"nd": (1.0, 1)}, "succeeded")
        known(make_run, {"spot": (9000.0, 1)}, "failed")
        assert self.order(project, "price/images_per_second") == ("nd", "spot", "a100")
        job_file = load_job(project / "job.yaml")
        prepared = prepare_for(job_file, (), RunStore.here(), copies=True, asks=False)
        assert [each.message for each in prepared.warnings] == [
            f"no run of `a` on `{name}` succeeded with a `images_per_second`: it comes last"
            for name in ("spot", "a100")
        ]
        assert [each.id for each in prepared.warnings] == ["no-earlier-run"] * 2

    def test_cheapest_asks_an_unreachable_target_once(
        self,
        project: Path,
        known: Callable[..., None],
        make_run: MakeRun,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked = []

        def refresh(run: Run, *, logs: bool = False) -> None:
            assert logs
            asked.append(run.id)
            raise TargetUnavailable.of("no-connection", "no connection", exit_code=5)

        monkeypatch.setattr(Run, "refresh", refresh)
        known(make_run, {"nd": (5.0, 1)}, "succeeded")
        for number in range(3):
            facts = {"target": "nd", "metrics": self.METRICS, "created": 2e9 + number}
            make_run(f"a-new{number}", [{"log": "", "state": "succeeded"}], "succeeded", **facts)
        assert self.order(project, "price/images_per_second")[0] == "nd"
        assert asked == ["a-new2"]

    def test_cheapest_refuses_an_unknown_price_or_metric(self, project: Path) -> None:
        _declare(project, nd=self.PRICES["nd"])
        unknown = "the price of a node of `spot` is not known"
        assert refused(lambda: self.order(project), unknown).path == "target.cheapest"
        _declare(project, **self.PRICES)
        refused(lambda: self.order(project, "price/speed"), "the job has no metric `speed`")
