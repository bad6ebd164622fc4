"""Jobs for several targets of which the first has no nodes to give: each runs once, on the next.

Both pools are of one account, where a job's id can be taken once.
"""

import json
import random
import signal
import time

import pytest
from batch_service import Two

from fairway_runner.runs.store import RunStore
from fairway_simulator.batch import Fault
from fairway_web.threads import Follower

pytestmark = pytest.mark.nightly

KILLS = 20
BOTH = ("--target", "full,free")


def test_a_run_goes_to_the_target_that_has_nodes(two: Two) -> None:
    done = two.fairway.within("submit", two.job(), *BOTH, "--run-id", "chosen", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "`full` was passed over: the pool cannot grow: AccountCoreQuotaReached" in done.stderr
    assert two.ran() == ["chosen sim"]
    facts = json.loads(two.ok("show", "chosen", "--json"))
    assert (facts["target"], facts["state"]) == ("free", "succeeded")
    assert list(facts["passed_over"]) == ["full"]
    assert "passed  full: the pool cannot grow" in two.ok("show", "chosen")


def test_a_submission_of_a_step_that_was_cut_off_goes_on(two: Two) -> None:
    """The last step of all has a run here, of which the service knows nothing yet."""
    steps = {"steps": {"one": {"command": "echo one"}}}
    job = two.fairway.folder / "cut.json"
    job.write_text(json.dumps({"name": "cut", "template": "plain", **steps}))
    away = two.service.faults.add(Fault("status", status=503, path="/jobs"))
    words = ("submit", job, "--target", "free", "--run-id", "cut", "--deadline", "1s")
    assert two.fairway.within(*words).returncode == 5
    two.service.faults.remove(away)
    follower = Follower(RunStore(two.fairway.folder / ".fairway"))
    assert follower.look(all_=False) == []  # by the files here, every step has begun
    for thread in follower.look(all_=True):
        thread.join()
    assert two.ok("wait", "cut-one") == "cut-one succeeded\n"
    assert two.ok("logs", "cut-one") == "one\n"


def test_a_job_says_where_it_runs_itself(two: Two) -> None:
    job = two.job(target=["full", "free"])
    assert "it would start 1 task on free, or else on full" in two.ok("submit", job, "--dry-run")
    two.ok("submit", job, "--watch", "--run-id", "own")
    assert two.ran() == ["own sim"]


def test_a_quota_of_jobs_that_is_used_up_is_no_end(two: Two) -> None:
    two.service.limit_jobs(0)
    done = two.fairway.within("submit", two.job(), *BOTH, "--run-id", "none")
    assert done.returncode == 5
    assert "ActiveJobAndScheduleQuotaReached" in done.stderr
    assert "`full` was passed over: " in done.stderr
    two.service.limit_jobs(None)
    assert "--resume" not in done.stderr
    two.ok("submit", two.job(), *BOTH, "--run-id", "none")
    two.ok("wait", "none")
    assert two.ran() == ["none sim"]


def test_killed_at_any_point_it_runs_once(two: Two) -> None:
    """`kill -9` of the command that submits and follows; another one goes on."""
    chance, job, faults = random.Random(7), two.job(), two.service.faults
    before = faults.requests.total()
    two.ok("submit", job, *BOTH, "--run-id", "whole", "--watch")
    requests = faults.requests.total() - before
    killed = 0
    for number in range(KILLS):
        run_id = f"killed-{number}"
        # Evenly over the whole of it, so that each part of the way is hit.
        answered = int((number + chance.random()) * requests / KILLS)
        held = faults.add(Fault("latency", seconds=3600, skip=answered))
        after = faults.requests.total() + answered
        words = ("submit", job, *BOTH, "--run-id", run_id)
        program = two.fairway.start(*words, "--watch")
        while faults.requests.total() <= after and program.poll() is None:
            time.sleep(0.002)
        program.send_signal(signal.SIGKILL)
        program.wait()
        killed += program.returncode == -signal.SIGKILL
        faults.remove(held)
        two.ok(*words)
        two.ok("wait", run_id)
        assert two.ran().count(f"{run_id} sim") == 1
    assert killed >= KILLS // 2
    assert len(two.ran()) == KILLS + 1
