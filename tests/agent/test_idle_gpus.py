"""Tasks with idle GPUs, by recorded samples and a fake clock."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock

from fairway_agent import sampler, state_files
from fairway_agent.limits import IdleWatch
from fairway_agent.machine import Host
from fairway_agent.resources import Share
from fairway_agent.slurm.allocation import SlurmNodes
from fairway_agent.spec import CANCEL, LAST, WARN, IdleGpu, RunPlan, TaskSpec
from fairway_agent.ssh.attempt import SshNodes
from fairway_agent.state_files import ERROR
from fairway_agent.task import attempts, task
from fairway_agent.task.attempts import has_retry
from fairway_agent.task.task import Nodes, Task

LIMIT = IdleGpu(5.0, 1800.0, CANCEL)
WHY = "its GPUs were below 5 % for 30m"
EVERY = 10.0


def add(folder: Path, node: str, times: Sequence[float], *uses: float | None) -> None:
    """Appends samples of a node as its sampler writes them."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{node}.jsonl").open("a") as lines:
        for time in times:
            gpus = [
                {"index": index, **({} if use is None else {"use": use}), "power": 90.1}
                for index, use in enumerate(uses)
            ]
            lines.write(json.dumps({"time": time, "cpu": 0.5, "gpus": gpus}) + "\n")


def at(start: float, end: float) -> list[float]:
    """Returns the times of samples, both ends included."""
    return [start + EVERY * n for n in range(round((end - start) / EVERY) + 1)]


def watch(folder: Path, *nodes: str, gpus: tuple[int, ...] | None = None) -> IdleWatch:
    return IdleWatch(LIMIT, folder, nodes or ("n1",), gpus, EVERY, 100.0)


def test_idle_gpus_are_detected_after_the_period_of_the_job(tmp_path: Path) -> None:
    mine = watch(tmp_path)
    assert mine.due == 1900.0  # they cannot be idle earlier
    add(tmp_path, "n1", at(0, 1790), 0.0, 0.049)
    assert not mine.look(1900.0)
    assert mine.due == 1910.0
    add(tmp_path, "n1", [1800], 0.0, 0.0)
    assert mine.look(1910.0)
    assert mine.reason == WHY
    add(tmp_path, "n1", [1810], 0.0, 0.05)
    assert not mine.look(1920.0)  # they are used again
    assert mine.due == 1920.0 + 1800


def test_idle_gpus_slower_samples_after_a_day_are_not_a_gap(tmp_path: Path) -> None:
    mine = watch(tmp_path)
    add(tmp_path, "n1", [sampler.SLOWER * (EVERY + 0.5) * n for n in range(30)], 0.0)
    assert mine.look(9e5)


def test_idle_gpus_samples_before_the_attempt_do_not_count(tmp_path: Path) -> None:
    add(tmp_path, "n1", at(0, 7200), 0.0)
    mine = watch(tmp_path)
    assert not mine.look(2000.0)
    add(tmp_path, "n1", at(7210, 9010), 0.0)
    assert mine.look(4000.0)


def test_idle_gpus_on_a_shared_node_considers_only_the_tasks_own_gpus(tmp_path: Path) -> None:
    mine, others, gone = (watch(tmp_path, gpus=gpus) for gpus in ((0, 2), (1,), (0, 7)))
    add(tmp_path, "n1", at(0, 1800), 0.0, 0.9, 0.0)
    assert (mine.look(2e3), others.look(2e3), gone.look(2e3)) == (True, False, False)


def test_idle_gpus_partial_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    mine = watch(tmp_path)
    add(tmp_path, "n1", at(0, 1790), 0.0)
    file = tmp_path / "n1.jsonl"
    whole = len(file.read_bytes())
    add(tmp_path, "n1", [1800], 0.0)
    text = file.read_bytes()
    file.write_bytes(text[: whole + 20])
    assert not mine.look(2000.0)
    file.write_bytes(text)
    assert mine.look(2010.0)


USES = {"idle": (0.0, 0.0), "half": (0.0, 0.05), "silent": (0.0, None), "none": ()}
SCENES = {
    # Samples of a node from one time to another, and whether its GPUs then count as idle.
    "one is busy": "n1 0-600 idle, n1 610 half, n1 620-2410 idle, no",
    "it was busy": "n1 610 half, n1 620-2420 idle, yes, n1 2430 half, no",
    "one is silent": "n1 0-600 idle, n1 610 silent, n1 620-2410 idle, no",
    "there is no folder": "no, n1 0-7200 none, no",
    # The use during a gap is unknown.
    "a gap": "n1 0-1790 idle, no, no, n1 5000-6790 idle, no, n1 6800 idle, yes",
    "a clock is set back": "n1 5000-6000 idle, n1 0-1790 idle, no, n1 1800 idle, yes",
    # One was busy until 1000; the other is silent from 2500 on.
    "both": "n1 0-1000 half, n1 1010-9000 idle, no, n2 0-2500 idle, no, n2 2510-2810 idle, yes",
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_idle_gpus_requires_all_gpus_idle_for_the_entire_period(tmp_path: Path, scene: str) -> None:
    mine = watch(tmp_path, *(node for node in ("n1", "n2") if node in scene))
    for step in scene.split(", "):
        if step in ("yes", "no"):
            assert mine.look(9e9) is (step == "yes")
        else:
            node, span, use = step.split()
            start, _, end = span.partition("-")
            add(tmp_path, node, at(float(start), float(end or start)), *USES[use])


@pytest.mark.parametrize(
    ("below", "use", "is_idle"), [(29.0, 0.29, False), (29.0, 0.28, True), (100.0, 0.99, True)]
)
def test_idle_gpus_limit_is_in_percent(
    tmp_path: Path, below: float, use: float, is_idle: bool
) -> None:
    mine = watch(tmp_path)
    mine.limit = replace(LIMIT, below=below)
    add(tmp_path, "n1", at(0, 1800), use)
    assert mine.look(2000.0) is is_idle


@pytest.mark.parametrize(
    "junk",
    [
        "[" * 100_000,
        "\x00\xff",
        '{"time": 5, "gpus": [{"index": 0, "use": "busy"}]}',
        '{"time": NaN, "gpus": [{"index": 0, "use": 1}]}',
        "x" * (3 << 20),
    ],
)
def test_idle_gpus_skips_a_line_that_is_no_sample(tmp_path: Path, junk: str) -> None:
    mine = watch(tmp_path)
    add(tmp_path, "n1", at(0, 900), 0.0)
    with (tmp_path / "n1.jsonl").open("a") as lines:
        lines.write(junk + "\n")
    add(tmp_path, "n1", at(910, 1800), 0.0)
    assert mine.look(2000.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, task, attempts)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the signals that were sent to a task's programs."""
    given: list[Any] = []
    monkeypatch.setattr(Nodes, "signal", lambda *words: given.append(words[2].name))
    return given


def _begun(folder: Path, **fields: Any) -> Task:
    """Returns a task that starts now."""
    limit = fields.pop("limit", LIMIT)
    plan = RunPlan("job-a", str(folder), retries=3, sample_every=EVERY, idle_gpu=limit)
    spec = TaskSpec(fields.pop("index", 0))
    plan = replace(plan, **fields.pop("plan", {}))
    made = Task(plan, spec, folder, folder / "tasks" / spec.name, attempt=0, **fields)
    made.folder.mkdir(parents=True)
    made.began, made.idle = task.time.monotonic(), attempts.idle_watch(made)
    return made


def test_idle_gpus_end_the_task_without_a_retry(
    tmp_path: Path, clock: Clock, told: list[Any]
) -> None:
    mine = _begun(tmp_path)
    assert mine.next_timer() == 1e9 - 5 + 1800
    clock.now += 1799
    add(tmp_path / "figures", sampler.node_name(), at(0, 1800), 0.0)
    mine.check_timers()
    assert (told, mine.limit) == ([], "")
    clock.now += 1
    mine.check_timers()
    assert (told, mine.timed_out, mine.failure_reason()) == (["SIGTERM"], True, WHY)
    assert mine.next_timer() == clock.monotonic() + 10  # its grace
    assert not has_retry(mine, ERROR)
    mine.finish("failed", 124)
    state = state_files.read_task(mine.folder)
    assert (state.state, state.exit_code) == ("failed", 124)
    assert (state.timed_out, state.reason) == (True, WHY)
    assert (mine.folder / "log.txt").read_text() == f"fairway: {WHY}\n"


def test_idle_gpus_warning_is_shown_until_the_gpus_are_used_again(
    tmp_path: Path, clock: Clock, told: list[Any]
) -> None:
    mine = _begun(tmp_path, limit=replace(LIMIT, then=WARN))
    figures, node = tmp_path / "figures", sampler.node_name()

    def reason() -> str | None:
        state = state_files.read_task(mine.folder)
        assert state.state == "running"
        return state.reason

    rows = [(0, 1800, 0.0, WHY), (1810, 1900, 0.0, WHY), (1910, 1910, 0.5, None)]
    for start, end, use, found in rows:
        add(figures, node, at(start, end), use)
        clock.now = 1e9 + end
        mine.check_timers()
        assert reason() == found
    add(figures, node, at(1920, 3720), 0.0)
    clock.now = 1e9 + 3720
    mine.check_timers()
    assert reason() == WHY
    assert (mine.folder / "log.txt").read_text() == f"fairway: {WHY}\n" * 2
    assert (told, mine.limit, has_retry(mine, ERROR)) == ([], "", True)


def test_idle_gpus_distinguishes_nodes_in_one_sample_file(tmp_path: Path) -> None:
    """All samples are in one file; only the number of nodes is known beforehand."""
    mine = replace(watch(tmp_path, "10.0.0.4", "10.0.0.5"), printed=tmp_path / "all", due=100.0)
    assert mine.due == 1900.0

    def say(node: str, times: Sequence[float], use: float) -> None:
        with (tmp_path / "all").open("a") as lines:
            for time in times:
                sample = {"node": node, "time": time, "gpus": [{"index": 0, "use": use}]}
                lines.write(json.dumps(sample) + "\n")

    say("n1", at(0, 1800), 0.0)
    assert not mine.look(1900.0)  # the other node has no samples yet
    say("n2", at(0, 100), 0.9)
    say("n2", at(110, 1800), 0.0)
    with (tmp_path / "all").open("a") as lines:
        lines.write('{"time": 1, "gpus": []}\nx\n')
    assert not mine.look(2000.0)
    say("n1", at(1810, 1910), 0.0)
    say("n2", at(1810, 1910), 0.0)
    assert mine.look(2100.0)


def test_idle_gpus_deadline_yields_to_a_shorter_timeout(
    tmp_path: Path, clock: Clock, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = _begun(tmp_path, plan={"timeout": 600.0})
    assert mine.next_timer() == 1e9 - 5 + 600
    with monkeypatch.context() as patch:
        patch.setattr(clock, "time", lambda: 2e9)  # the machine's clock is set
        mine.check_timers()
    assert told == []
    clock.now += 600
    mine.check_timers()
    assert (told, mine.timed_out, mine.failure_reason()) == (["SIGTERM"], True, None)


@pytest.mark.parametrize("kind", [SshNodes, SlurmNodes])
def test_idle_gpus_of_a_cluster_task_are_those_of_its_own_nodes(
    tmp_path: Path,
    clock: Clock,
    told: list[Any],
    kind: type[Nodes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setattr(kind, "signal", lambda *words: told.append(words[2].name))
    run = tmp_path / "runs" / "job-a"
    run.mkdir(parents=True)
    hosts = [Host("n2", "10.0.0.2"), Host("n3", "10.0.0.3")]
    mine = _begun(run, nodes=kind(), hosts=hosts)
    add(run / "figures", "n1", at(0, 1800), 0.9)
    add(run / "figures", "n2", at(0, 1800), 0.0)
    clock.now += 1800
    mine.check_timers()
    assert told == []
    add(run / "figures", "n3", at(0, 1800), 0.0)
    clock.now += 1800
    mine.check_timers()
    assert (told, mine.failure_reason(), has_retry(mine, ERROR)) == (["SIGTERM"], WHY, False)


def test_idle_gpus_watch_covers_only_the_gpus_of_a_node_share(tmp_path: Path, clock: Clock) -> None:
    share = Share((1,), (0,), 0.5, (1, 2))
    mine = _begun(tmp_path, hosts=[Host("localhost", "localhost", share=share)])
    assert (mine.idle.gpus, mine.idle.nodes) == ((1,), [sampler.node_name()])


@pytest.mark.parametrize(
    "fields",
    [{"limit": None}, {"plan": {"sample_every": None}}, {"index": "setup"}, {"index": LAST}],
)
def test_idle_gpus_does_not_watch_setup_finally_or_unsampled_tasks(
    tmp_path: Path, clock: Clock, fields: dict[str, Any]
) -> None:
    mine = _begun(tmp_path, **fields)
    assert (mine.idle, mine.next_timer()) == (None, None)
