"""Inputs of Batch runs that are kept outputs of other runs, in the storage account."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from running import MakeRun
from targets import target_of

from fairway_agent.spec import RunPlan, Staged
from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.batch import outputs
from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.engines.batch.schedules import BatchSchedules
from fairway_runner.engines.batch.submission import BatchSubmission
from fairway_runner.engines.outage import RunRefused
from fairway_runner.runs.output_files import RunOutput
from fairway_runner.runs.store import Run


class Blobs:
    """A storage account that records uploads."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.sent: list[str] = []

    def blobs(self, container: str, prefix: str) -> Iterator[Any]:
        for name, size in self.known.items():
            if f"{container}:{prefix}" == name[: len(container) + 1 + len(prefix)]:
                yield SimpleNamespace(name=name.partition(":")[2], size=size)

    def delete(self, container: str, names: list[str]) -> int:
        return sum(self.known.pop(f"{container}:{name}", None) is not None for name in names)

    def upload(self, container: str, name: str, path: Path) -> None:
        self.sent.append(name)
        self.known[f"{container}:{name}"] = path.stat().st_size


def pool(environment: str = "e", account: str = "https://a.blob.core.windows.net") -> Target:
    storage = {"account_url": account, "containers": ["outputs", "code"]}
    return target_of("batch", environment=environment, storage=storage)


def run_on(make_run: MakeRun, target: Target) -> Run:
    run = make_run("train-a", engine=target.engine)
    (run.folder / "target.json").write_text(json.dumps(target.record()))
    folder = run.folder / "tasks/0/outputs/model/deep"
    folder.mkdir(parents=True)
    (folder / "x").write_text("model")
    (folder.parent / "y").write_text("")
    return run


def bring_inputs(run: Run, storage: Any) -> None:
    outputs.upload_inputs(outputs.missing_inputs(run, storage), storage)


def planned(run: Run, *staged: Staged) -> None:
    plan = RunPlan(run=run.id, directory="code", staged=staged)
    (run.folder / "plan.json").write_text(plan.text())


def kept(run: Run, brought: list[str]) -> RunOutput:
    return RunOutput(run, 0, "model", lambda: brought.append(run.id))


def test_batch_kept_input_in_the_same_account_is_staged_from_there(make_run: MakeRun) -> None:
    brought: list[str] = []
    found = outputs.staged_input("score-a", "init", kept(run_on(make_run, pool()), brought), pool())
    assert found == Staged("init", "outputs", "train-a/0/outputs/model/", "scratch")
    assert brought == []


@pytest.mark.parametrize(
    "elsewhere",
    [pool(environment="f"), pool(account="https://z"), Target.local()],
    ids=["environment", "account", "engine"],
)
def test_batch_kept_input_elsewhere_is_copied_once(make_run: MakeRun, elsewhere: Target) -> None:
    brought: list[str] = []
    run = run_on(make_run, elsewhere)
    found = outputs.staged_input("score-a", "init", kept(run, brought), pool())
    assert brought == [run.id]
    assert (found.container, found.path) == ("code", "runs/score-a/inputs/init/")
    assert found.source == "runs/train-a/tasks/0/outputs/model"
    planned(run, found)
    storage: Any = Blobs()
    bring_inputs(run, storage)
    assert sorted(storage.sent) == [f"{found.path}deep/x", f"{found.path}y"]
    bring_inputs(run, storage)
    assert len(storage.sent) == 2
    storage.known[f"code:{found.path}y"] = 7  # incomplete
    bring_inputs(run, storage)
    assert storage.sent[2:] == [f"{found.path}y"]


def test_batch_kept_input_digest_depends_on_its_names_and_contents(make_run: MakeRun) -> None:
    run = run_on(make_run, Target.local())
    own = kept(run, [])
    first = own.digest()
    (own.folder / "y").write_text("m")
    second = own.digest()
    (own.folder / "y").rename(own.folder / "z")
    assert len({first, second, own.digest()}) == 3
    (own.folder / "z").rename(own.folder / "y")
    (own.folder / "y").write_text("")
    assert own.digest() == first


@pytest.mark.parametrize(
    "entry",
    [
        Staged("init", "outputs", "gone-a/0/outputs/model/", "scratch"),
        Staged(
            "init",
            "code",
            "runs/score-a/inputs/init/",
            "scratch",
            source="runs/gone-a/tasks/0/outputs/m",
        ),
    ],
)
def test_batch_kept_input_that_no_longer_exists_is_refused(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, entry: Staged
) -> None:
    """Except when a submission is resumed, whose tasks may run: nothing of it is forgotten."""
    run = run_on(make_run, pool())
    planned(run, entry)
    engine: Any = BatchEngine(pool())
    engine.account, engine.storage = Mock(), Blobs()
    monkeypatch.setattr(BatchSubmission, "job", Mock())
    for kind in (RunRefused, UserError):
        with pytest.raises(UserError, match="the input `init` no longer exists") as caught:
            engine.start(run, run.take_lock(), run.folder, {})
        assert type(caught.value) is kind


def test_batch_kept_input_copy_is_deleted_with_its_run_or_schedule(make_run: MakeRun) -> None:
    storage: Any = Blobs()
    own = kept(run_on(make_run, Target.local()), [])
    names = ("score-a", "nightly", "nightly-2")
    for name in names:
        run = make_run(name)
        planned(run, outputs.staged_input(run.id, "init", own, pool()))
        bring_inputs(run, storage)
    account: Any = SimpleNamespace(order=lambda *_: None)
    schedules: Any = BatchSchedules(account, storage, pool())
    schedules._named = lambda name: [name]
    left = []
    for remove in (
        lambda: outputs.delete_stored("score-a", storage),
        lambda: schedules.act("delete", "nightly"),
        lambda: schedules.act("delete", "nightly-2"),
    ):
        remove()
        left.append({name.split("/")[1] for name in storage.known})
    assert left == [{"nightly", "nightly-2"}, {"nightly-2"}, set()]
