"""What a job and a command line say of where it runs, and what is looked at for each target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError
from fairway_runner.engines.ssh.engine import SshEngine
from fairway_runner.jobs.job_file import load_job
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit.several import choose, prepare_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from conftest import MakeRun

    from fairway_runner.submit.several import Choice
    from fairway_runner.submit.submission import Prepared

NAMES = ("nd", "spot", "a100")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three clusters that are reached by ssh, and the job's folder."""
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


def _choose(folder: Path, *names: str, patience: float | None = None, **fields: Any) -> Choice:
    path = folder / "job.yaml"
    path.write_text(json.dumps({"name": "a", "command": "true", **fields}))
    return choose(load_job(path), names, patience)


def _prepare(folder: Path, *names: str, **fields: Any) -> Prepared:
    choice = _choose(folder, *names, **{"template": "plain", **fields})
    return prepare_for(load_job(folder / "job.yaml"), choice, RunStore.here())


def _names(choice: Choice) -> tuple[str, ...]:
    return tuple(target.name for target in choice.targets)


class TestChoosing:
    """The command line wins over the job, and the job over `local`."""

    @pytest.mark.parametrize(
        ("said", "names"),
        [
            ({}, ("local",)),
            ({"target": "nd"}, ("nd",)),
            ({"target": None}, ("local",)),
            ({"target": ["spot", "nd"]}, ("spot", "nd")),
            ({"target": {"in_order": ["a100", "nd"]}}, ("a100", "nd")),
        ],
    )
    def test_the_job_says_it(
        self, project: Path, said: dict[str, Any], names: tuple[str, ...]
    ) -> None:
        assert _names(_choose(project, **said)) == names

    def test_the_command_line_says_it(self, project: Path) -> None:
        where = {"in_order": ["nd", "a100"], "patience": "30m"}
        assert _names(_choose(project, "spot", target=where)) == ("spot",)
        assert _choose(project, "spot", "nd", target=where).patience is None

    def test_patience(self, project: Path) -> None:
        where = {"in_order": ["nd", "a100"], "patience": "30m"}
        assert _choose(project, target=where).patience == 1800.0
        assert _choose(project, patience=60.0, target=where).patience == 60.0
        assert _choose(project, "nd", "spot", patience=60.0).patience == 60.0

    def test_patience_with_one_target_is_for_nothing(self, project: Path) -> None:
        for names, fields in (
            (("nd",), {}),
            ((), {"target": {"in_order": ["nd"], "patience": "1m"}}),
        ):
            with pytest.raises(UserError, match="patience is for several targets") as caught:
                _choose(project, *names, patience=None if fields else 5.0, **fields)
            place = caught.value.findings[0].location
            assert (place is not None) is bool(fields)

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ([], "this names no target"),
            (["nd", "nd"], "`nd` is there twice"),
            ("-x", "this is not a target's name"),
            (["nd", "../x"], "this is not a target's name"),
            (3, "expected text or a list or a mapping, found the number 3"),
            ({"in_orde": ["nd"]}, "unknown key `in_orde`"),
            ({"in_order": ["nd", "a100"], "patience": "long"}, "`long` is not a span of time"),
            ({"patience": "30m"}, "give either `in_order` or `cheapest`"),
        ],
    )
    def test_what_is_wrong_is_said_at_its_line(self, project: Path, target: Any, said: str) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, target=target)
        assert said in str(caught.value)
        assert "value error" not in str(caught.value)
        assert caught.value.findings[0].location is not None

    def test_a_target_that_is_not_there(self, project: Path) -> None:
        with pytest.raises(UserError, match="there is no target `sopt`") as caught:
            _choose(project, target=["nd", "sopt"])
        assert caught.value.findings[0].hint == "did you mean `spot`?"

    @pytest.mark.parametrize(
        ("target", "places"),
        [
            ("gpu", {"gpu"}),
            (["nd", "gpu", "x1"], {"gpu", "x1"}),
            ({"in_order": ["gpu", "nd"]}, {"gpu"}),
            ({"cheapest": ["nd", "x1"], "in_order": None}, {"x1"}),
        ],
    )
    def test_each_that_is_not_there_is_shown_at_its_place(
        self, project: Path, target: Any, places: set[str]
    ) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, target=target)
        shown = set()
        for finding in caught.value.findings:
            place = finding.location
            assert place is not None
            shown.add(place.text[place.column : place.column + place.length - 2])
            assert finding.hint.startswith("one of: a100, local, nd, spot\n")
            assert "fairway targets sync" in finding.hint
        assert shown == places

    def test_the_command_line_is_no_place_in_the_job(self, project: Path) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, "gpu", "x1", target="nd")
        assert [each.location for each in caught.value.findings] == [None, None]
        said = [each.message for each in caught.value.findings]
        assert said == ["there is no target `gpu`", "there is no target `x1`"]

    def test_this_machine_is_not_one_of_several(self, project: Path) -> None:
        with pytest.raises(UserError, match="`local` cannot be one of several targets"):
            _choose(project, "nd", "local")


class TestPreparing:
    """All that can be wrong on any target is said before anything is written."""

    def test_each_target_has_its_files(self, project: Path) -> None:
        prepared = _prepare(project, *NAMES, inputs={"words": "data:/words"})
        files = prepared.all_files()
        for name in NAMES[1:]:
            record = json.loads(files[f"targets/{name}/run.json"])
            assert (record["id"], record["target"]) == (prepared.record.id, name)
            plan = json.loads(files[f"targets/{name}/plan.json"])
            assert plan["environment"]["FAIRWAY_INPUT_WORDS"] == f"/mnt/{name}/words"
            assert json.loads(files[f"targets/{name}/target.json"])["name"] == name
        state = json.loads(files["fallback.json"])
        assert (state["phase"], state["left"]) == ("starting", ["spot", "a100"])
        assert [each["target"] for each in state["tries"]] == ["nd"]

    def test_one_target_has_none_of_that(self, project: Path) -> None:
        files = _prepare(project, "nd").all_files()
        assert not [name for name in files if name.startswith(("targets/", "fallback"))]

    def test_every_target_is_looked_at(self, project: Path) -> None:
        _declare(project, spot={"mounts": {}}, a100={"nodes": {"min": 1, "max": 1}})
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES, inputs={"words": "data:/words"})
        assert "the target `spot` has no mount `data`" in str(caught.value)
        _declare(project, a100={"nodes": {"min": 1, "max": 1}})
        with pytest.raises(UserError, match="needs 2 nodes, and `a100` has 1"):
            _prepare(project, *NAMES, nodes=2)
        assert not (project / ".fairway" / "runs").exists()

    def test_what_is_wrong_everywhere_is_said_once(self, project: Path) -> None:
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES, nodes=0)
        assert len(caught.value.findings) == 1

    def test_a_target_without_a_host_is_passed_over(self, project: Path) -> None:
        _declare(project, nd={"ssh": {"host": "", "user": "me", "shared": "/data"}})
        prepared = _prepare(project, *NAMES)
        state = json.loads(prepared.all_files()["fallback.json"])
        assert (prepared.record.target, state["left"]) == ("spot", ["a100"])
        first, second = state["tries"]
        assert (first["target"], second["target"]) == ("nd", "spot")
        assert "`nd` has no address" in first["reason"]
        assert first["ended"] is not None

    def test_where_no_target_has_room_it_is_said_of_each(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def require(engine: SshEngine, *_: object) -> None:
            message = f"{engine.target.name} does not answer"
            raise UserError.of("no-connection", message, exit_code=5)

        monkeypatch.setattr(SshEngine, "require", require)
        with pytest.raises(UserError) as caught:
            _prepare(project, *NAMES)
        said = [finding.message for finding in caught.value.findings]
        assert said == [f"{name} does not answer" for name in NAMES]
        assert caught.value.exit_code == 5

    def test_the_same_submission_is_known_again(self, project: Path) -> None:
        def submitted(*names: str, **fields: Any) -> str:
            text = _prepare(project, *names, **fields).all_files()["fallback.json"]
            return str(json.loads(text)["submitted"])

        known = submitted(*NAMES)
        assert submitted(*NAMES) == known
        assert submitted("nd", "a100", "spot") != known
        assert submitted(*NAMES, env={"A": "1"}) != known
        _declare(project, nd={"ssh": {"host": "", "user": "me", "shared": "/data"}})
        assert submitted("spot", "a100") != known


class TestCheapest:
    """By figures that are worked out by hand."""

    PRICES = {"nd": {"price": 98.0}, "spot": {"price": 30.0}, "a100": {"price": 60.0}}  # noqa: RUF012
    METRICS = {"images_per_second": "rate=([0-9.]+)"}  # noqa: RUF012

    @pytest.fixture
    def known(self, project: Path) -> Callable[..., None]:
        """Declares the prices, and makes runs on these targets that printed these images per second
        on as many nodes."""
        _declare(project, **self.PRICES)

        def make(make_run: MakeRun, runs: Mapping[str, tuple[float, int]], state: str) -> None:
            for number, (target, (rate, nodes)) in enumerate(runs.items()):
                task = {"log": f"rate={rate}\n", "nodes": nodes, "state": state}
                facts = {"target": target, "metrics": self.METRICS, "created": 1e9 + number}
                make_run(f"a-{target}{state}", [task], state, **facts)

        return make

    def order(self, project: Path, by: str | None = None) -> Choice:
        where = {"cheapest": list(NAMES), **({"by": by} if by else {})}
        return _choose(project, target=where, metrics=self.METRICS, nodes=2)

    @pytest.mark.parametrize("by", [None, "price"])
    def test_by_price(self, project: Path, by: str | None) -> None:
        _declare(project, **self.PRICES)
        assert _names(self.order(project, by)) == ("spot", "a100", "nd")

    def test_by_what_is_done_for_it(
        self, project: Path, known: Callable[..., None], make_run: MakeRun
    ) -> None:
        # For a million images: 98 / 4900 = 0.020, 30 / 1000 = 0.030, 60 / (8000 / 2) = 0.015.
        runs = {"nd": (4900.0, 1), "spot": (1000.0, 1), "a100": (8000.0, 2)}
        known(make_run, runs, "succeeded")
        found = self.order(project, "price/images_per_second")
        assert (_names(found), list(found.warnings)) == (("a100", "nd", "spot"), [])

    def test_a_target_without_a_run_comes_last(
        self, project: Path, known: Callable[..., None], make_run: MakeRun
    ) -> None:
        known(make_run, {"nd": (1.0, 1)}, "succeeded")
        known(make_run, {"spot": (9000.0, 1)}, "failed")
        found = self.order(project, "price/images_per_second")
        assert _names(found) == ("nd", "spot", "a100")
        said = [finding.message for finding in found.warnings]
        assert said == [
            f"no run of `a` on `{name}` succeeded with a `images_per_second`: it comes last"
            for name in ("spot", "a100")
        ]
        prepared = prepare_for(load_job(project / "job.yaml"), found, RunStore.here())
        assert [each.id for each in prepared.warnings] == ["no-earlier-run"] * 2

    def test_a_target_that_is_away_is_asked_once(
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
            raise UserError.of("no-connection", "no connection", exit_code=5)

        monkeypatch.setattr(Run, "refresh", refresh)
        known(make_run, {"nd": (5.0, 1)}, "succeeded")
        for number in range(3):
            facts = {"target": "nd", "metrics": self.METRICS, "created": 2e9 + number}
            make_run(f"a-new{number}", [{"log": "", "state": "succeeded"}], "succeeded", **facts)
        assert _names(self.order(project, "price/images_per_second"))[0] == "nd"
        assert asked == ["a-new2"]

    def test_it_is_the_same_submission_whichever_is_the_cheapest(
        self, project: Path, known: Callable[..., None], make_run: MakeRun
    ) -> None:
        def submitted() -> tuple[str, str]:
            where = {"cheapest": list(NAMES), "by": "price/images_per_second"}
            choice = _choose(project, target=where, metrics=self.METRICS, template="plain")
            prepared = prepare_for(load_job(project / "job.yaml"), choice, RunStore.here())
            text = prepared.all_files()["fallback.json"]
            return prepared.record.target, str(json.loads(text)["submitted"])

        known(make_run, {"nd": (1.0, 1)}, "succeeded")
        first, digest = submitted()
        known(make_run, {"a100": (1.0, 1), "spot": (9.0, 1)}, "succeeded")
        assert (first, submitted()) == ("nd", ("spot", digest))

    def test_a_price_that_nobody_knows(self, project: Path) -> None:
        _declare(project, nd=self.PRICES["nd"])
        with pytest.raises(UserError, match="the price of a node of `spot` is not known") as error:
            self.order(project)
        assert error.value.findings[0].path == "target.cheapest"

    def test_a_metric_that_the_job_has_not(self, project: Path) -> None:
        _declare(project, **self.PRICES)
        with pytest.raises(UserError, match="the job has no metric `speed`"):
            self.order(project, "price/speed")

    @pytest.mark.parametrize(
        ("where", "said"),
        [
            ({}, "give either `in_order` or `cheapest`"),
            ({"in_order": ["nd"], "cheapest": ["nd"]}, "give either"),
            ({"in_order": ["nd"], "by": "price"}, "`by` has no effect with `in_order`"),
            ({"cheapest": ["nd"], "by": "speed"}, "`speed` is not an order"),
            ({"cheapest": ["nd"], "by": "price/"}, "`price/` is not an order"),
            ({"cheapest": []}, "this names no target"),
        ],
    )
    def test_what_is_wrong(self, project: Path, where: dict[str, Any], said: str) -> None:
        with pytest.raises(UserError) as caught:
            _choose(project, target=where)
        assert said in str(caught.value)
        assert "value error" not in str(caught.value)
