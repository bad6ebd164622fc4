"""Copies of task logs: each byte once, whatever fails meanwhile."""

import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from pool import Files, refused
from running import MakeRun

from fairway_agent.state_files import TaskState
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.batch.task_files import TaskFiles, follow_logs, logs_are_complete
from fairway_runner.runs.store import Run

pytestmark = pytest.mark.integration


def status(state: str = "running", attempt: int = 0, started: float = 1.0) -> TaskState:
    code = 0 if state == "succeeded" else None
    return TaskState(state, attempt=attempt, started=started, exit_code=code)


@pytest.fixture
def service() -> Files:
    made = Files()
    made.begin("0", 0)
    made.begin("1", 0)
    return made


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return make_run("r-1", [{}, {}], engine="batch")


def look(run: Run, service: Files, *statuses: TaskState) -> dict[int, int]:
    files = TaskFiles(run, service, service, "r-1")  # type: ignore[arg-type]
    return follow_logs(files, dict(enumerate(statuses or (status(), status()))))


class TestOnce:
    """No byte is copied twice or omitted."""

    def test_batch_log_lines_appear_once_with_three_concurrent_readers(
        self, run: Run, service: Files
    ) -> None:
        written: list[bytes] = []

        def grow(task: str, name: str) -> None:
            if (task, name) == ("0", "stdout.txt"):
                line = b"line %d\n" % len(written)
                written.append(line)
                service.say("0", line)

        service.before = grow
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(look, run, service) for _ in range(60)]:
                done.result()
        service.before = lambda _task, _name: None
        look(run, service)
        assert run.log_text(0) == service.node["0", "stdout.txt"].decode()

    def test_batch_log_lines_appear_once_after_a_refresh_that_failed_half_way(
        self, run: Run, service: Files
    ) -> None:
        service.say("0", b"one\n")

        def fail(task: str, _name: str) -> None:
            if task == "1":
                raise refused(503)

        service.before = fail
        for _ in range(2):
            with pytest.raises(ServiceError):
                look(run, service)
        service.before = lambda _task, _name: None
        look(run, service)
        assert run.log_text(0) == "one\n"

    @pytest.mark.parametrize("room", [0, 3, 6000])
    def test_batch_log_lines_appear_once_after_refreshes_with_a_full_disk(
        self, run: Run, service: Files, room: int
    ) -> None:
        """The kernel refuses bytes beyond the limit for every file, including the records of the
        copies; a write with room for a part leaves that part."""
        service.say("0", b"one\n")
        look(run, service)
        service.say("0", b"".join(b"line %d\n" % number for number in range(1000)))
        service.say("1", b"other\n" * 500)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            for _ in range(3):
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
                with pytest.raises(OSError, match="File too large"):
                    look(run, service)
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
                service.say("0", b"more\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        look(run, service)
        for number in (0, 1):
            printed = service.node[str(number), "stdout.txt"].decode()
            assert run.log_text(number) == printed
        look(run, service)
        assert run.log_text(0) == service.node["0", "stdout.txt"].decode()

    def test_batch_log_lines_appear_once_when_storage_replaces_a_lost_node(
        self, run: Run, service: Files
    ) -> None:
        service.say("0", b"one\n")
        look(run, service)
        service.stored["r-1/0/stdout.txt"] = b"one\ntwo\n"
        service.node.clear()
        look(run, service, status("succeeded"), status("succeeded"))
        assert run.log_text(0) == "one\ntwo\n"
        assert "lost with its node" in run.log_text(1)
        assert logs_are_complete(run)


class TestAttempts:
    """Each attempt's log follows that of the previous one."""

    def test_batch_log_starts_another_attempt_after_a_preemption_without_counts(
        self, run: Run, service: Files
    ) -> None:
        # The service counts only retries and requested requeues: see the
        # descriptions of retry_count and requeue_count in azure-batch.
        service.say("0", b"a long line of the first\n")
        look(run, service)
        service.begin("0", 1)
        service.say("0", b"second\n")
        found = look(run, service, status(started=2.0), status())
        lost = "fairway: attempt 1 lost its node, and the last lines that it printed\n"
        assert run.log_text(0) == f"a long line of the first\n{lost}second\n"
        assert (found[0].attempt, found[0].begins) == (1, (25,))

    @pytest.mark.parametrize(
        ("begins", "requeues", "lost"), [(False, 0, False), (True, 0, False), (True, 1, True)]
    )
    def test_batch_log_reports_a_lost_node_only_if_a_started_task_was_requeued(
        self, run: Run, service: Files, begins: bool, requeues: int, lost: bool
    ) -> None:
        """If nodes cannot reach one another, Batch retries the task, and no attempt starts."""
        if begins:
            service.say("0", b"first\n")
            look(run, service)
        del service.node["0", "wd/logs/attempt.txt"]
        service.node["0", "stdout.txt"] = b"install openssh-server\n"
        ended = replace(status("failed", attempt=1, started=2.0), requeues=requeues)
        look(run, service, ended, status())
        text = run.log_text(0)
        assert ("lost its node" in text) is lost
        assert text.endswith("\ninstall openssh-server\n")

    def test_batch_log_reports_no_loss_before_the_node_of_the_next_attempt_copies_it(
        self, run: Run, service: Files
    ) -> None:
        service.say("0", b"first")
        look(run, service)
        del service.node["0", "wd/logs/attempt.txt"]
        service.node["0", "stdout.txt"] = b""

        asked: list[str] = []

        def late(_task: str, name: str) -> None:
            asked.append(name)
            if len(asked) == 2:  # the marker appears after the first file was requested
                service.begin("0", 1, b"first and its end\n")

        service.before = late
        again = status(attempt=1, started=2.0)
        look(run, service, again)
        service.before = lambda _task, _name: None
        if len(asked) < 2:
            service.begin("0", 1, b"first and its end\n")
        service.say("0", b"second\n")
        look(run, service, again)
        assert run.log_text(0) == "first and its end\nsecond\n"

    @pytest.mark.parametrize("marker", [b"x\n", b"1\n", b"999999999 ab\n", b"\xff\xfe", b"-1 ab"])
    def test_batch_log_is_copied_despite_an_attempt_marker_that_the_task_overwrote(
        self, run: Run, service: Files, marker: bytes
    ) -> None:
        service.say("0", b"one\n")
        look(run, service)
        service.node["0", "wd/logs/attempt.txt"] = marker
        service.say("0", b"two\n")
        look(run, service, status(started=2.0), status())
        look(run, service, status("succeeded", started=2.0), status("succeeded"))
        text = run.log_text(0)
        assert "one\n" in text
        assert text.endswith("two\n")
        assert len(text) < 200

    def test_batch_log_waits_for_the_attempt_marker_of_a_restarted_task(
        self, run: Run, service: Files
    ) -> None:
        service.say("0", b"first, and long\n")
        again = status(attempt=1, started=2.0)
        look(run, service, again)  # the files are still those of the first attempt
        service.begin("0", 1, b"first, and long\n")
        service.say("0", b"second\n")
        look(run, service, again)
        assert run.log_text(0) == "first, and long\nsecond\n"

    def test_batch_log_of_an_attempt_that_starts_during_a_refresh_is_complete(
        self, run: Run, service: Files
    ) -> None:
        service.say("0", b"first\n")
        look(run, service)

        def restart(_task: str, name: str) -> None:
            if name == "stdout.txt":
                service.before = lambda _task, _name: None
                service.begin("0", 1, b"first\n")
                service.say("0", b"second attempt\n")

        service.before = restart
        look(run, service, status())  # the service's list is older than the restart
        look(run, service, status(attempt=1, started=2.0))
        assert run.log_text(0) == "first\nsecond attempt\n"

    def test_batch_log_of_all_attempts_is_complete_after_the_first_refresh(
        self, run: Run, service: Files
    ) -> None:
        service.begin("0", 2, b"first\n", b"second\n")
        service.say("0", b"third\n")
        found = look(run, service, status("succeeded", started=3.0))[0]
        assert (found.attempt, found.begins) == (2, (6, 13))
        assert run.log_text(0) == "first\nsecond\nthird\n"


def test_batch_log_of_a_failed_task_ends_with_output_of_its_other_failed_nodes(
    make_run: MakeRun, service: Files
) -> None:
    run, root = make_run("r-1", [{"nodes": 5}, {}], engine="batch"), "job-1/0"
    where = {"taskRootDirectory": root}
    subtasks = [
        {"id": 1, "result": "failure", "nodeInfo": {**where, "nodeId": "gone"}},
        {"id": 2, "result": "success", "nodeInfo": {**where, "nodeId": "n2"}},
        {"id": 3, "result": "failure"},
        {"id": 4, "result": "Failure", "nodeInfo": {**where, "nodeId": "n4"}},
    ]
    printed = {("n2", f"{root}/stdout.txt"): b"well\n", ("n4", f"{root}/stdout.txt"): b"one\ntwo"}

    def node_file(node: str, name: str, *_: int) -> bytes:
        if node == "gone":
            raise refused()
        return printed[node, name]

    account: Any = service
    account.subtasks, account.node_file = lambda *_: subtasks, node_file
    service.say("0", b"main\n")
    look(run, service, replace(status("failed"), exit_code=1), status())
    assert run.log_text(0) == "main\n[node 4] one\n[node 4] two\n"
