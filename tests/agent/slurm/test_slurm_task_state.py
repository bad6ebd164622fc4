"""States of tasks by the states and reasons of Slurm's jobs, and by accounting."""

import time
from typing import Any

import pytest

from fairway_agent.reconcile import JobView, resolve
from fairway_agent.slurm import jobs
from fairway_agent.slurm.jobs import HELD, SlurmJob, explain, jobs_named, seconds, view_of
from fairway_agent.state_files import TaskState
from fairway_boot.slurm import commands

NOW = 1_700_000_000.0


def element(state: str, reason: str = "None", **more: Any) -> SlurmJob:
    facts = {"job": "12", "index": 3, "nodes": "nd-1", "ended": "Unknown", "comment": ""}
    return SlurmJob(**{**facts, **more}, state=state, reason=reason)


RUNNING = TaskState("running", attempt=1, started=NOW - 60, node="nd-1")


@pytest.mark.parametrize(
    ("state", "expected", "code", "reason"),
    [
        ("NODE_FAIL", "failed", 5, "node nd-1 failed"),
        ("BOOT_FAIL", "failed", 5, "node nd-1 did not start"),
        ("TIMEOUT", "failed", 124, "its time limit in Slurm was over"),
        ("OUT_OF_MEMORY", "failed", 137, "out of memory"),
        ("CANCELLED", "cancelled", 130, "cancelled in Slurm"),
        ("FAILED", "failed", 5, "its job failed before it could report why: see slurm.txt"),
        ("COMPLETED", "failed", 5, "its job ended without a report: see slurm.txt"),
    ],
)
def test_slurm_ended_job_gives_state_exit_code_and_reason(
    state: str, expected: str, code: int, reason: str
) -> None:
    found = view_of(element(state, ended="2023-11-16T20:00:00"), NOW)
    assert (found.state, found.exit_code, found.reason) == (expected, code, reason)
    assert found.timed_out is (code == 124)
    assert found.unreported is (state in ("FAILED", "COMPLETED"))
    assert found.ended == seconds("2023-11-16T20:00:00")


def test_slurm_lost_node_is_named_and_a_fresh_pending_task_stays_unchanged() -> None:
    assert view_of(element("NODE_FAIL", nodes=""), NOW, "nd-2").reason == "node nd-2 failed"
    view = view_of(element("PENDING", "Resources"), NOW)
    assert view == JobView("queued", "waiting for nodes")
    assert resolve(TaskState(), view, cancelled=False, now=NOW) == TaskState()


@pytest.mark.parametrize(
    ("state", "command"), [("SUSPENDED", "scontrol resume"), ("STOPPED", "scancel --signal=CONT")]
)
def test_slurm_suspended_task_names_the_command_that_resumes_it(state: str, command: str) -> None:
    said = f"suspended in Slurm: {command} 12_3"
    assert view_of(element(state), NOW) == JobView("running", said, suspended=True)


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("PENDING", "Resources", "waiting for nodes"),
        ("PENDING", "BeginTime", "it starts again in a moment"),
        ("CONFIGURING", "None", "its nodes are starting"),
        ("PENDING", "QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit"),
    ],
)
def test_slurm_requeued_task_is_queued_with_its_reason(state: str, reason: str, said: str) -> None:
    found = resolve(RUNNING, view_of(element(state, reason), NOW), cancelled=False, now=NOW)
    assert (found.state, found.reason, found.attempt) == ("queued", said, 1)
    assert found.node is None


@pytest.mark.parametrize("reason", ["JobHeldUser", *HELD[1:]])
def test_slurm_held_job_names_the_command_that_releases_it(reason: str) -> None:
    held = element("PENDING", reason)
    assert explain(held).startswith("held")
    assert explain(held).endswith("scontrol release 12_3")


@pytest.mark.parametrize("text", ["Unknown", "N/A", "", "tomorrow"])
def test_slurm_time_that_is_unknown_is_zero(text: str) -> None:
    assert seconds(text) == 0.0


@pytest.mark.parametrize(
    "reason",
    [
        "ReqNodeNotAvail, UnavailableNodes:nd-1",
        "Nodes required for job are DOWN, DRAINED or reserved",
        "PartitionDown",
    ],
)
def test_slurm_pending_reason_says_why_its_nodes_are_down(
    monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    why = "Azure: nodes missing: 3, since 14:02 UTC, next try 14:14 UTC: {AllocationFailed}"
    said = {
        "squeue": f"12|N/A|PENDING|{reason}||N/A|nd|N/A|10|fairway\n"
        f"13|N/A|PENDING|{reason}||N/A|cpu|N/A|10|\n",
        "sinfo": f"nd|bad GPU\nnd|{why}\ncpu|drained by ann\n",
    }
    monkeypatch.setattr(commands, "run", lambda words: said[words[0]])
    nd, cpu = jobs_named(["run"])
    assert (explain(nd), nd.comment) == (why, "fairway")
    assert cpu.reason == reason


# Pending jobs of a partition with priority, id and reason. Ahead of 12 are 9, which is older, and
# both elements of 20, whose priority is higher; 21, 22 and those from 24 on cannot start yet.
QUEUE = """100|12|Priority
100|9|Resources
100|30|Priority
900|24|launch failed requeued held
900|26|job requeued in held state
900|27|JobHoldMaxRequeue
900|20|Priority
900|20|Priority
900|21|Dependency
900|22|JobHeldUser
x|23|Priority
"""


@pytest.mark.parametrize(
    ("priority", "job", "said"),
    [
        ("100", "12", "2 other jobs come first"),
        ("500", "12", "1 other job comes first"),
        ("950", "12", "other jobs come first"),
        ("100", "40", "4 other jobs come first"),
        ("N/A", "12", "other jobs come first"),
    ],
)
def test_slurm_pending_reason_counts_jobs_of_higher_priority(
    monkeypatch: pytest.MonkeyPatch, priority: str, job: str, said: str
) -> None:
    mine = f"{job}|N/A|PENDING|Priority||N/A|nd|N/A|{priority}|fairway\n"
    answers = {"PENDING": QUEUE, "all": mine}
    monkeypatch.setattr(commands, "run", lambda words: answers[words[words.index("-t") + 1]])
    [found] = jobs_named(["run"])
    assert (explain(found), found.comment) == (said, "fairway")


@pytest.mark.parametrize(
    ("reason", "after", "said"),
    [
        ("Resources", 3601, "waiting for nodes; Slurm expects it to start by 2023-11-14 23:15 UTC"),
        ("Resources", 3400, "waiting for nodes; Slurm expects it to start by 2023-11-14 23:10 UTC"),
        # Slurm expects a job without a limit to run for a year.
        ("Resources", 365 * 86400, "waiting for nodes"),
        ("Resources", -60, "waiting for nodes"),
        ("Dependency", 3600, "waiting for other jobs"),
    ],
)
def test_slurm_pending_reason_names_the_expected_start(reason: str, after: int, said: str) -> None:
    starts = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW + after))
    assert view_of(element("PENDING", reason, starts=starts), NOW).reason == said


ENDED = "None|nd-1|2026-01-02T04:04:05|fairway r tasks 0 0\n"
REQUEUED = f"NODE_FAIL|None|nd-2|2026-01-02T03:04:05|c\nTIMEOUT|{ENDED}"  # the last row counts


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"CANCELLED by 1000|{ENDED}", "CANCELLED"),
        (REQUEUED, "TIMEOUT"),
        *((f"{state}|None|nd-1|Unknown|c\n", None) for state in ("RUNNING", "FAILED")),
        *((text, None) for text in ("", "\n")),  # the first is a cluster without accounting
    ],
)
def test_slurm_accounting_gives_the_end_of_a_job_that_is_known_to_have_ended(
    monkeypatch: pytest.MonkeyPatch, text: str, state: str | None
) -> None:
    def run(words: list[str], **_: object) -> str:
        assert words[:4] == ["sacct", "-n", "-P", "-X"]
        if not text:
            raise commands.CommandFailed("Slurm accounting storage is disabled")
        return text

    monkeypatch.setattr(commands, "run", run)
    found = jobs.look_up("12", 3)
    if state is None:
        assert found is None
    else:
        assert (found.state, found.nodes, found.id) == (state, "nd-1", "12_3")
