"""Reports of tasks on a pool, each in a file: their ends, their shares, their samples."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from pool import Files, refused
from running import MakeRun

from fairway_agent import state_files
from fairway_agent.batch.notifications import ExitReport
from fairway_agent.spec import WARN, IdleGpu, RunPlan
from fairway_agent.state_files import ExceededLimit, RunState, TaskState
from fairway_boot.files import write_json
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch.poller import Poller, limited, write_state
from fairway_runner.engines.batch.states import add_exit_reports, add_shares, completed_state
from fairway_runner.engines.batch.submission import State
from fairway_runner.engines.batch.task_files import TaskFiles, copy_figures
from fairway_runner.runs.figures import figures
from fairway_runner.runs.store import Run

WHY = "it was over its max_cost of 200 USD"
SHARE, FIGURES = ("0", "wd/logs/share.txt"), ("0", "wd/logs/figures.txt")
REPORT, ATTEMPT = ("0", "wd/logs/exit-report.json"), ("0", "wd/logs/attempt.txt")


@pytest.fixture
def files() -> Any:
    return Files()


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """Returns a run with one running task, which requests two GPUs."""
    made = make_run("r-1", state="running", engine="batch")
    write_json(made.folder / "job.json", {"gpus": 2, "cores": None})
    write_json(made.task_folder(0) / "state.json", {"state": "running", "attempt": 0})
    (made.folder / "plan.json").write_text(RunPlan("r-1", "/x", max_duration=60.0).text())
    return made


class TestEndings:
    """The end of a task, together with the service's facts about it."""

    FAILED = TaskState("failed", attempt=3, started=1.0, ended=9.0, exit_code=124)

    @staticmethod
    def report(job: str = "r-1", task: str = "0", **state: Any) -> bytes:
        facts = {"state": "failed", "attempt": 0, "exit_code": 124, "held": 90.0, "reason": "x"}
        made = ExitReport(job, task, "n1", TaskState(**{**facts, **state}), "max_cost", WHY)
        return json.dumps(made.to_json()).encode()

    @staticmethod
    def look(run: Run, files: Any, status: TaskState) -> tuple[TaskState, ExceededLimit | None]:
        found = {0: status}
        over = add_exit_reports(TaskFiles(run, files, files, "r-1"), 0, found)
        return found[0], over

    def test_batch_ending_is_read_from_storage_without_the_node(self, run: Run, files: Any) -> None:
        files.stored["r-1/exit-reports/0/0/exit-report.json"] = self.report()
        status, over = self.look(run, files, self.FAILED)
        assert (status.attempt, status.held, status.reason, status.started) == (0, 90.0, "x", 1.0)
        assert over == ExceededLimit("max_cost", WHY)
        known = {"state": "running", "limit": "max_cost", "reason": WHY}
        write_json(run.folder / "state.json", known)
        found = add_exit_reports(TaskFiles(run, files, files, "r-1"), 0, {})
        assert found == ExceededLimit("max_cost", WHY), "it was found before"

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{",
            b"[" * 60_000,
            b"null",
            report(job="r-2"),
            report(task="1"),
            report(exit_code=0),
            report(state="running"),
        ],
    )
    def test_batch_ending_that_is_invalid_or_of_another_task_is_ignored(
        self, run: Run, files: Any, text: bytes
    ) -> None:
        files.node[REPORT] = text
        assert self.look(run, files, self.FAILED) == (self.FAILED, None)

    def test_batch_ending_sets_the_limit_before_and_after_the_run_ends(self) -> None:
        """All exit reports may have been read before the run ends, and none is requested again."""
        over, going = (
            ExceededLimit("max_cost", WHY),
            RunState("running", started=1.0, tasks={"failed": 1}),
        )
        known = limited(going, over)
        assert known == replace(going, limit="max_cost", reason=WHY)
        ended = limited(replace(known, state="cancelled", ended=9.0), over)
        assert (ended.state, ended.limit, ended.exit_code) == ("failed", "max_cost", 124)

    def test_batch_ending_is_not_requested_for_running_killed_or_unlimited_tasks(
        self, run: Run, files: Any
    ) -> None:
        killed = TaskState("failed", attempt=0, ended=9.0)  # without an exit code
        for status in (TaskState("running", attempt=0), killed):
            assert self.look(run, files, status) == (status, None)
        (run.folder / "plan.json").write_text(RunPlan("r-1", "/x").text())
        assert self.look(run, files, self.FAILED) == (self.FAILED, None)
        assert files.asked == 0

    def test_batch_ending_is_requested_once_for_an_ended_task(self, run: Run, files: Any) -> None:
        write_json(run.folder / "job.json", {})
        files.node[REPORT] = self.report()
        times = {"startTime": "2026-03-01T12:00:00Z", "endTime": "2026-03-01T12:00:05Z"}
        info = {**times, "exitCode": 124, "result": "failure"}
        files.tasks = lambda *_: [{"id": "0", "state": "completed", "executionInfo": info}]
        for _ in range(2):
            poller = Poller(files, files)
            found, _ = poller._tasks(run, {"state": "active"}, State(0, jobs=("r-1",)), logs=False)
            poller._write_tasks(run, found)
            assert (found[0].state, found[0].held, files.asked) == ("failed", 90.0, 1)

    def test_batch_ending_is_requested_for_exit_code_74_without_any_limit(
        self, run: Run, files: Any
    ) -> None:
        (run.folder / "plan.json").write_text(RunPlan("r-1", "/x").text())
        said = json.loads(self.report(exit_code=74)) | {"limit": None, "why": None}
        files.node[REPORT] = json.dumps(said).encode()
        status, over = self.look(run, files, replace(self.FAILED, exit_code=74))
        assert (status.reason, over, files.asked) == ("x", None, 1)

    def test_batch_ending_gives_the_idle_gpu_warning_of_a_running_task(
        self, run: Run, files: Any
    ) -> None:
        plan = RunPlan("r-1", "/x", idle_gpu=IdleGpu(5.0, 60.0, WARN))
        (run.folder / "plan.json").write_text(plan.text())
        status = TaskState("running", attempt=1)
        assert self.look(run, files, status) == (status, None)
        warned = ExitReport("r-1", "0", "n1", replace(status, reason="idle"))
        files.node[REPORT] = json.dumps(warned.to_json()).encode()
        assert self.look(run, files, status)[0].reason == "idle"
        assert completed_state(TaskState("running", attempt=2), warned).reason is None

    def test_batch_state_keeps_the_known_reason_if_the_service_has_none(self, run: Run) -> None:
        """For example of a run cancelled to leave its target, whose log is read later."""
        why = RunState("cancelled", "it began when it was about to leave", started=1.0)
        state_files.write(run.folder, why)
        write_state(run, RunState("cancelled", started=1.0, ended=9.0))
        assert state_files.read_run(run.folder) == replace(why, ended=9.0)
        write_state(run, RunState("running", started=1.0))
        assert run.status.is_final
        write_state(run, RunState("failed", started=1.0, ended=9.0))
        assert run.status.reason is None


ALLOCATION = {"attempt": 1, "gpus": [2, 3], "cores": [24, 25, 26], "node_fraction": 0.25}


class TestShares:
    """Devices that are assigned to tasks which share a node."""

    RUNS = TaskState("running", attempt=1, started=100.0)

    def told(self, run: Run, files: Any, status: TaskState = RUNS) -> TaskState:
        """Returns the task's state with its share added."""
        found = {0: status}
        add_shares(TaskFiles(run, files, files, "job"), found)
        return found[0]

    def test_batch_share_of_a_running_task_is_requested_once_per_attempt(
        self, run: Run, files: Any
    ) -> None:
        assert self.told(run, files) == self.RUNS, "it waits on its node"
        files.node[SHARE] = json.dumps(ALLOCATION).encode()
        known = self.told(run, files)
        assert (known.gpus, known.cores, known.node_fraction) == ("2-3", "24-26", 0.25)
        assert self.told(run, files, known) == known
        assert files.asked == 2
        files.node[SHARE] = json.dumps(ALLOCATION).encode()
        again = replace(self.RUNS, attempt=2, started=200.0)
        assert self.told(run, files, again) == again, "this is what the one before has said"
        files.node[SHARE] = json.dumps({**ALLOCATION, "attempt": 2, "gpus": [0, 1]}).encode()
        assert self.told(run, files, again).gpus == "0-1"

    def test_batch_share_of_an_ended_task_is_read_from_storage(self, run: Run, files: Any) -> None:
        files.stored["r-1/0/share.txt"] = json.dumps(ALLOCATION).encode()
        assert self.told(run, files).gpus is None, "it is not there before the end"
        ended = replace(self.RUNS, state="succeeded", ended=300.0)
        assert self.told(run, files, ended).node_fraction == 0.25

    def test_batch_share_is_not_requested_for_queued_or_full_node_tasks(
        self, run: Run, files: Any
    ) -> None:
        for status in (TaskState("queued", attempt=0, started=100.0), TaskState()):
            assert self.told(run, files, status) == status
        write_json(run.folder / "job.json", {})
        assert self.told(run, files) == self.RUNS, "it has the whole node"
        assert files.asked == 0

    @pytest.mark.parametrize(
        "said",
        [
            b"",
            b"{",
            b"\xff",
            b"[" * 100_000,
            b"[]",
            *(
                json.dumps({**ALLOCATION, **wrong}).encode()
                for wrong in (
                    {"gpus": "0-99999999999"},
                    {"gpus": [-1]},
                    {"gpus": [10**9]},
                    {"gpus": [True]},
                    {"cores": [0] * 5000},
                    {"node_fraction": 0},
                    {"node_fraction": 1.5},
                    {"node_fraction": "\x1b[2J"},
                    {"attempt": -1},
                    {"attempt": None},
                )
            ),
        ],
    )
    def test_batch_share_is_ignored_if_invalid(self, run: Run, files: Any, said: bytes) -> None:
        files.node[SHARE] = said
        assert self.told(run, files) == self.RUNS

    @pytest.mark.parametrize("asked", ["task_file", "read"])
    def test_batch_share_raises_the_refusal_of_the_service(
        self, run: Run, files: Any, monkeypatch: pytest.MonkeyPatch, asked: str
    ) -> None:
        refuse = Mock(side_effect=refused(403, "AuthorizationFailure"))
        monkeypatch.setattr(files, asked, refuse)
        with pytest.raises(ServiceError):
            self.told(run, files, replace(self.RUNS, state="failed", ended=300.0))


def sample(time: float, node: object = "tvm-1_d") -> bytes:
    return json.dumps({"node": node, "time": time, "cpu": 0.5}).encode() + b"\n"


class TestFigures:
    """Samples of a run's nodes, copied from the files of its tasks."""

    def bring(self, run: Run, files: Any) -> dict[str, list[float]]:
        """Copies new samples and returns the times of each node's samples."""
        copy_figures(TaskFiles(run, files, files, "job"))
        return {node: [each.time for each in samples] for node, samples in figures(run).items()}

    def test_batch_figures_append_complete_lines_as_they_arrive(self, run: Run, files: Any) -> None:
        assert self.bring(run, files) == {}
        files.node = {ATTEMPT: b"0 a\n", FIGURES: sample(1) + b'{"node": '}
        assert self.bring(run, files) == {"tvm-1_d": [1]}
        assert self.bring(run, files) == {"tvm-1_d": [1]}
        files.node[FIGURES] = sample(1) + sample(2, "tvm-2_d") + sample(3)
        assert self.bring(run, files) == {"tvm-1_d": [1, 3], "tvm-2_d": [2]}

    def test_batch_figures_of_another_attempt_on_its_former_node_are_appended(
        self, run: Run, files: Any
    ) -> None:
        files.node = {ATTEMPT: b"0 a\n", FIGURES: sample(1) + sample(2)}
        self.bring(run, files)
        files.node = {ATTEMPT: b"1 b\n", FIGURES: sample(1) + sample(2) + sample(3)}
        assert self.bring(run, files) == {"tvm-1_d": [1, 2, 3]}

    def test_batch_figures_continue_with_retries_and_storage(self, run: Run, files: Any) -> None:
        for attempt, text in enumerate((sample(1), sample(2) + sample(3))):
            state = {"state": "failed", "attempt": attempt, "exit_code": 1}
            write_json(run.task_folder(0) / "state.json", state)
            files.node = {ATTEMPT: f"{attempt} mark\n".encode(), FIGURES: text}
            found = self.bring(run, files)
        assert found == {"tvm-1_d": [1, 2, 3]}
        files.node = {ATTEMPT: b"0 a\n", FIGURES: sample(1)}
        self.bring(run, files)
        state = {"state": "succeeded", "attempt": 0, "exit_code": 0}
        write_json(run.task_folder(0) / "state.json", state)
        files.node = {}
        names = {"attempt.txt": b"0 a\n", "figures.txt": sample(1) + sample(2)}
        files.stored = {f"r-1/0/{name}": data for name, data in names.items()}
        assert self.bring(run, files) == found
        asked = files.asked
        assert self.bring(run, files) == found
        assert files.asked == asked  # everything was copied before

    @pytest.mark.parametrize(
        "node", ["../../evil", "/tmp/evil", ".x", "", "a\x1b[2J", 3, None, ["a"]]
    )
    def test_batch_figures_ignore_node_names_that_are_no_file_names(
        self, run: Run, files: Any, node: Any
    ) -> None:
        text = sample(1, node) + b"[1]\n" + b"[" * 50_000 + b"\n" + sample(2)
        files.node = {ATTEMPT: b"0 a\n", FIGURES: text}
        assert self.bring(run, files) == {"tvm-1_d": [2]}
        assert [path.name for path in (run.folder / "figures").iterdir()] == ["tvm-1_d.jsonl"]
