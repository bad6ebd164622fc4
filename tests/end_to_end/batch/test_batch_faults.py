"""Submissions to a failing service, and submissions that are cut off: no task is lost or added
twice. Tasks are added to a pool without nodes, so that none runs meanwhile."""

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from batch_service import Batch, Waiting

from fairway_simulator.batch import Fault

TASKS = 2_000
KILLS = 20

FAULTS: dict[str, dict[str, Any]] = {
    "429": {"kind": "status", "status": 429},
    "500": {"kind": "status", "status": 500},
    "502": {"kind": "status", "status": 502},
    "503": {"kind": "status", "status": 503},
    "503 after it was done": {"kind": "status", "status": 503, "applied": True},
    "cut": {"kind": "cut"},
    "cut after it was done": {"kind": "cut", "applied": True},
    "torn": {"kind": "torn"},
    "slow": {"kind": "slow", "seconds": 0.05},
    "half-accepted collections": {"kind": "half"},
}


class TestKilledClients:
    """`kill -9` at any point of a submission, which is then resumed."""

    @pytest.mark.nightly
    def test_batch_submit_killed_at_any_call_resumes_with_each_task_once(
        self, waiting: Waiting
    ) -> None:
        job = waiting.many(TASKS)
        chance = random.Random(20)
        faults = waiting.service.faults
        cut_off = 0
        for number in range(KILLS):
            run_id = f"killed-{number}"
            # The first calls are answered; the next one hangs until the program is killed.
            answered = chance.randint(0, 24)
            held = faults.add(Fault("latency", seconds=3600, skip=answered))
            after = faults.requests.total() + answered
            command = ("submit", job, "--target", "batch-sim", "--yes", "--run-id", run_id)
            program = waiting.fairway.start(*command)
            while faults.requests.total() <= after and program.poll() is None:
                time.sleep(0.002)
            program.send_signal(signal.SIGKILL)
            program.wait()
            faults.remove(held)
            if not (waiting.run(run_id).folder / "run.json").exists():
                waiting.ok(*command)  # nothing was recorded yet: submit again
            elif number % 2:
                waiting.ok("submit", "--resume", run_id)
            else:
                waiting.ok(*command)
            cut_off += program.returncode == -signal.SIGKILL
            assert waiting.tasks(waiting.run(run_id)) == list(range(TASKS))
        assert cut_off >= KILLS // 2

    def test_batch_submit_cut_off_is_shown_with_its_resume_command(self, waiting: Waiting) -> None:
        run = waiting.submit(waiting.many(3), "--run-id", "half")
        facts = (run.folder / "engine.json").read_text().replace("true", "false", 1)
        (run.folder / "engine.json").write_text(facts)
        assert "resume it with: fairway submit --resume half" in waiting.ok("show", "half")
        waiting.ok("submit", "--resume", "half")
        assert "resume" not in waiting.ok("show", "half")
        assert waiting.tasks(run) == [0, 1, 2]


class TestFailingCalls:
    """Submissions during which some calls fail, in each of the ways a call can fail."""

    @pytest.mark.parametrize("name", FAULTS)
    def test_batch_submit_with_failing_calls_adds_each_task_once(
        self, waiting: Waiting, name: str
    ) -> None:
        waiting.service.faults.add(Fault(**FAULTS[name], share=0.3))
        run = waiting.submit(waiting.many(TASKS // 2))  # in ten calls
        waiting.service.faults.clear()
        assert waiting.service.faults.hits[FAULTS[name]["kind"]] > 0
        assert waiting.tasks(run) == list(range(TASKS // 2))

    @pytest.mark.nightly
    def test_batch_submit_retries_calls_that_time_out(
        self, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fairway_runner.engines.azure_sdk._TIMEOUT", 2)
        waiting.service.faults.add(Fault("timeout", seconds=3600, share=0.1, count=3))
        run = waiting.submit(waiting.many(300))
        assert waiting.tasks(run) == list(range(300))


class TestGivingUp:
    """A service that stays unavailable: commands give up at their deadline."""

    @pytest.mark.nightly
    def test_batch_submit_past_its_deadline_exits_5_and_can_be_resumed(
        self, waiting: Waiting
    ) -> None:
        waiting.service.faults.add(Fault("status", status=503, path="addtaskcollection", skip=3))
        job = waiting.many(TASKS)
        waiting.fairway.refused(
            *("submit", job, "--target", "batch-sim", "--yes", "--run-id", "busy"),
            *("--deadline", "2s"),
            says=(
                "has not answered for 2 s",
                "300 of 2,000 tasks were accepted",
                "fairway submit --resume busy",
            ),
            code=5,
        )
        waiting.service.faults.clear()
        waiting.ok("submit", "--resume", "busy")
        assert waiting.tasks(waiting.run("busy")) == list(range(TASKS))

    def test_batch_list_warns_if_the_service_is_unavailable_and_shows_known_runs(
        self, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = waiting.submit(waiting.many(2))
        monkeypatch.setattr("fairway_runner.engines.azure_calls.SOON", 0.5)
        waiting.service.faults.add(Fault("status", status=503))
        done = waiting.fairway.within("list")
        assert (done.returncode, run.id in done.stdout) == (0, True)
        assert "Azure Batch has not answered" in done.stderr


class TestCredentials:
    """Keys, tokens and clocks."""

    def test_batch_submit_with_a_wrong_key_is_one_error_that_hides_the_key(
        self, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AZURE_BATCH_ACCESS_KEY", "d3Jvbmc=")
        done = waiting.fairway.within("submit", waiting.many(2), "--target", "batch-sim")
        assert done.returncode == 2
        assert done.stderr.count("error:") == 1
        assert "does not accept these credentials" in done.stderr
        assert "AZURE_BATCH_ACCESS_KEY" in done.stderr
        assert "d3Jvbmc=" not in done.stderr

    def test_batch_submit_succeeds_with_a_clock_that_is_an_hour_off(self, waiting: Waiting) -> None:
        waiting.service.advance(3600)
        run = waiting.submit(waiting.many(300))
        assert waiting.tasks(run) == list(range(300))

    @pytest.mark.nightly
    def test_batch_submit_renews_a_token_that_expires_midway(
        self, make_batch: Callable[..., Batch], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from azure.core.credentials import AccessToken

        from fairway_runner.engines.batch import client

        batch = make_batch(tls=True)
        asked = []

        class Credential:
            def get_token(self, *scopes: str, **_: Any) -> AccessToken:
                asked.append(scopes)
                # It claims to be valid for an hour, but is refused after some requests.
                return AccessToken(batch.service.issue_token(), int(time.time()) + 3600)

        monkeypatch.setattr(client, "token_credential", Credential)
        monkeypatch.delenv("AZURE_BATCH_ACCESS_KEY")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(batch.service.ca_file))
        batch.service.faults.add(Fault("expired", count=2, skip=4))
        points = [{"repeat": 500}]
        run = batch.submit(batch.fairway.job("true", template="plain", sweep={"points": points}))
        account: Any = run.engine.account  # type: ignore[attr-defined]
        assert len(list(account.tasks(run.id, ["id"]))) == 500
        assert len(asked) > 1

    def test_batch_run_leaves_the_account_key_in_no_log_or_file(self, batch: Batch) -> None:
        code, printed = batch.watch(batch.fairway.job("env; ps -ef", template="plain"))
        assert code == 0
        key = batch.service.key
        assert key not in printed
        for file in (batch.fairway.folder / ".fairway").rglob("*"):
            assert not file.is_file() or key not in file.read_text(errors="replace")
