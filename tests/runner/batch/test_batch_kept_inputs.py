"""Inputs of Batch runs that other runs have kept, in the storage account."""

from __future__ import annotations

import json
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.spec import RunPlan, Staged
from fairway_core.target import Target
from fairway_runner.engines.batch import outputs
from fairway_runner.engines.batch.schedules import BatchSchedules
from fairway_runner.engines.outage import Refused
from fairway_runner.runs.kept import KeptOutput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import MakeRun

    from fairway_runner.runs.store import Run


class Blobs:
    """A storage account that notes what is sent to it."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.sent: list[str] = []

    def blobs(self, container: str, prefix: str) -> Iterator[Any]:
        for name, size in self.known.items():
            if f"{container}:{prefix}" == name[: len(container) + 1 + len(prefix)]:
                yield SimpleNamespace(name=name.partition(":")[2], size=size)

    def upload(self, container: str, name: str, data: bytes) -> None:
        self.known[f"{container}:{name}"] = len(data)

    def delete(self, container: str, names: list[str]) -> int:
        return sum(self.known.pop(f"{container}:{name}", None) is not None for name in names)

    def upload_file(self, container: str, name: str, path: Path) -> None:
        self.sent.append(name)
        self.known[f"{container}:{name}"] = path.stat().st_size


def pool(environment: str = "e", account: str = "https://a.blob.core.windows.net") -> Target:
    batch = {"endpoint": "https://b", "pool": "p", "identity": "i"}
    storage = {"account_url": account, "containers": ["outputs", "code"]}
    facts = {"name": "pool", "engine": "batch", "nodes": {"min": 0, "max": 4}}
    return Target.model_validate(
        {**facts, "environment": environment, "batch": batch, "storage": storage}
    )


def run_on(make_run: MakeRun, target: Target) -> Run:
    run = make_run("train-a", engine=target.engine)
    (run.folder / "target.json").write_text(json.dumps(target.record()))
    folder = run.folder / "tasks/0/outputs/model/deep"
    folder.mkdir(parents=True)
    (folder / "x").write_text("model")
    (folder.parent / "y").write_text("")
    return run


def planned(run: Run, *staged: Staged) -> None:
    plan = RunPlan(run=run.id, directory="code", staged=staged)
    (run.folder / "plan.json").write_text(plan.text())


def kept(run: Run, brought: list[str]) -> KeptOutput:
    return KeptOutput(run, 0, "model", lambda: brought.append(run.id))


def test_batch_kept_input_in_the_same_account_is_staged_from_there(make_run: MakeRun) -> None:
    brought: list[str] = []
    found = outputs.staged_input("init", kept(run_on(make_run, pool()), brought), pool())
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
    found = outputs.staged_input("init", kept(run, brought), pool())
    assert brought == [run.id]
    assert found.container == "code"
    assert found.source == "runs/train-a/tasks/0/outputs/model"
    planned(run, found)
    storage: Any = Blobs()
    outputs.bring_inputs(run, storage)
    assert sorted(storage.sent) == [f"{found.path}deep/x", f"{found.path}y"]
    outputs.bring_inputs(run, storage)
    assert len(storage.sent) == 2
    storage.known[f"code:{found.path}y"] = 7  # not whole
    outputs.bring_inputs(run, storage)
    assert storage.sent[2:] == [f"{found.path}y"]


def test_batch_kept_input_digest_follows_from_its_contents(make_run: MakeRun) -> None:
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
        Staged("init", "code", "chained/0/", "scratch", source="runs/gone-a/tasks/0/outputs/m"),
    ],
)
def test_batch_kept_input_that_no_longer_exists_is_refused(
    make_run: MakeRun, entry: Staged
) -> None:
    run = run_on(make_run, pool())
    planned(run, entry)
    storage: Any = Blobs()
    with pytest.raises(Refused, match="the input `init` no longer exists"):
        outputs.bring_inputs(run, storage)


def test_a_copy_goes_with_the_last_run_that_has_it(make_run: MakeRun) -> None:
    storage: Any = Blobs()
    own = kept(run_on(make_run, Target.local()), [])
    entry = outputs.staged_input("init", own, pool())
    runs = [make_run(f"score-{letter}") for letter in "ab"]
    for run in runs:
        planned(run, entry)
        outputs.bring_inputs(run, storage)
    outputs.forget_inputs(runs[0], storage)
    assert f"code:{entry.path}y" in storage.known
    outputs.forget_inputs(runs[0], storage)  # what was removed already, as by another command
    assert f"code:{entry.path}y" in storage.known
    outputs.forget_inputs(runs[1], storage)
    assert storage.known == {}


def test_a_run_that_comes_while_the_last_is_removed_has_its_copy(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notes itself after the other has looked who else has the copy."""
    monkeypatch.setattr(outputs, "_PAUSE", 0)
    has_looked = Event()

    class Slow(Blobs):
        coming: Thread | None = None

        def blobs(self, container: str, prefix: str) -> Iterator[Any]:
            found = list(super().blobs(container, prefix))
            if prefix.startswith("chained-going/") and found:
                has_looked.set()
            if prefix.startswith("chained-users/") and self.coming is None:
                self.coming = Thread(target=outputs.bring_inputs, args=(runs[1], self))
                self.coming.start()
                while self.coming.is_alive() and not has_looked.wait(0.01):
                    pass
            yield from found

    storage: Any = Slow()
    own = kept(run_on(make_run, Target.local()), [])
    entry = outputs.staged_input("init", own, pool())
    runs = [make_run(f"score-{letter}") for letter in "ab"]
    for run in runs:
        planned(run, entry)
    outputs.bring_inputs(runs[0], storage)
    outputs.forget_inputs(runs[0], storage)
    storage.coming.join(300)
    digest = entry.path.split("/")[1]
    expected = [f"chained-users/{digest}/score-b", f"{entry.path}deep/x", f"{entry.path}y"]
    assert sorted(storage.known) == sorted(f"code:{name}" for name in expected)


def test_a_removal_that_was_cut_off_keeps_nobody_waiting(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_PATIENCE", -1.0)
    storage: Any = Blobs()
    entry = outputs.staged_input("init", kept(run_on(make_run, Target.local()), []), pool())
    storage.known = {f"code:chained-going/{entry.path.split('/')[1]}/gone-a": 0}
    run = make_run("score-a")
    planned(run, entry)
    outputs.bring_inputs(run, storage)
    assert f"code:{entry.path}y" in storage.known
    assert not any("going" in name for name in storage.known)


def test_a_copy_goes_with_the_schedule_that_has_it(make_run: MakeRun) -> None:
    storage: Any = Blobs()
    entry = outputs.staged_input("init", kept(run_on(make_run, Target.local()), []), pool())
    for name in ("nightly", "nightly-2"):
        run = make_run(name)
        planned(run, entry)
        outputs.bring_inputs(run, storage)
    engine: Any = SimpleNamespace(
        account=SimpleNamespace(order=lambda *_: None), storage=storage, target=pool()
    )
    BatchSchedules(engine).act("delete", "nightly")
    assert f"code:{entry.path}y" in storage.known
    BatchSchedules(engine).act("delete", "nightly-2")
    assert storage.known == {}


def test_a_copy_without_users_and_what_was_not_copied_stay(make_run: MakeRun) -> None:
    storage: Any = Blobs()
    storage.known = {"code:chained/0/x": 1, "outputs:train-a/0/outputs/model/x": 1}
    run = run_on(make_run, pool())
    copied = Staged("init", "code", "chained/0/", "scratch", source="runs/a-a/tasks/0/outputs/m")
    planned(run, copied, Staged("other", "outputs", "train-a/0/outputs/model/", "scratch"))
    outputs.forget_inputs(run, storage)
    assert len(storage.known) == 2
