"""Slurm's jobs, as squeue lists them, and sacct those that slurmctld has forgotten."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.reconcile import JobView, queue_reason
from fairway_agent.state_files import CANCELLED, KILLED, SERVICE, TIMED_OUT
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MOST_NAMES = 1000  # jobs in one command line

# The states of a job that has ended, however it did.
ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)
WAITING = frozenset(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"))


@dataclass(frozen=True)
class SlurmJob:
    """A job, or one element of an array, as squeue sees it. `job` is the array's id, `index` the
    element's; -1 for a job that is no array. `ended`, and `starts`, when Slurm expects a pending
    job to start, are in Slurm's own form; `comment` is as it was submitted. `ahead` counts the jobs
    that come before a pending one."""

    job: str
    index: int
    state: str
    reason: str
    nodes: str
    ended: str
    comment: str
    starts: str = ""
    ahead: int = 0
    partition: str = ""

    @property
    def id(self) -> str:
        """Id in the form of Slurm's commands."""
        return self.job if self.index < 0 else f"{self.job}_{self.index}"


_FIELDS = "%F|%K|%T|%r|%N|%e|%P|%S|%Q|%k"
_LAST = _FIELDS.count("|")

# Slurm's reasons that say less than those of the nodes themselves.
_LACKS_NODES = ("ReqNodeNotAvail", "Nodes required for job are DOWN", "PartitionDown")
# How the reasons begin that Fairway's scheduler gives its nodes.
_OURS = ("fairway:", "Azure:")

# Reasons of jobs that wait for their turn.
TURNS = ("Priority", "Resources")
# Reasons of held jobs in squeue's form; scontrol has `_` instead of spaces.
HELD = (
    *("JobHeld", "JobHoldMaxRequeue", "launch failed requeued held"),
    *("job requeued in held state", "job requeued in special exit state"),
)
_NOT_YET = (*HELD, "Dependency", "BeginTime", "JobArrayTaskLimit")


def jobs_named(names: Iterable[str]) -> list[SlurmJob]:
    """Returns the jobs of these names, including those that ended a short while ago. Raises
    AgentError if Slurm does not list its jobs."""
    try:
        return _jobs_named(sorted(names))
    except commands.CommandFailed as refused:
        text = f"Slurm does not list its jobs: {commands.one_line(str(refused))}"
        raise AgentError("host-failed", text, commands.DOWN) from None


def _jobs_named(left: Sequence[str]) -> list[SlurmJob]:
    found = []
    while left:
        some, left = left[:_MOST_NAMES], left[_MOST_NAMES:]
        found += _listed("--name", ",".join(some))
    reasons: dict[str, str] = {}  # reasons for a partition's inactive nodes
    if any(reason.startswith(_LACKS_NODES) for _, _, _, reason, *_ in found):
        rest = commands.run(["sinfo", "-h", "-N", "-t", "down,drain", "-o", "%R|%E"])
        rows = (line.partition("|") for line in rest.splitlines())
        reasons = {name: why for name, _, why in rows if why.startswith(_OURS)}
    queues: dict[str, list[tuple[int, int]]] = {}  # priority and id of a partition's waiting jobs
    for name in {each[6] for each in found if each[2] == "PENDING" and each[3] in TURNS}:
        words = ["squeue", "-h", "-t", "PENDING", "-p", name, "-o", "%Q|%F|%r"]
        lines = commands.run(words).splitlines()
        queue = (line.split("|", 2) for line in lines if line.count("|") > 1)
        queues[name] = [
            (int(priority), int(job))
            for priority, job, reason in queue
            if priority.isdecimal() and job.isdecimal() and not reason.startswith(_NOT_YET)
        ]
    return [_element(each, reasons, queues) for each in found]


def _listed(*which: str) -> list[list[str]]:
    said = commands.run(["squeue", "-h", "-r", "-t", "all", *which, "-o", _FIELDS])
    return [line.split("|", _LAST) for line in said.splitlines() if line.count("|") >= _LAST]


def renamed(job: str, comment: str) -> list[SlurmJob]:
    """Returns the elements of a job that no longer has its run's name: an operator may rename it.
    The comment says whose it is, as Slurm reuses a number after it has lost its state."""
    try:
        rows = _listed("-j", job)
    except commands.CommandFailed:  # slurmctld does not know the job
        return []
    found = [_element(words, {}, {}) for words in rows]
    return [each for each in found if each.comment == comment]


def _element(
    words: Sequence[str],
    reasons: Mapping[str, str],
    queues: Mapping[str, Sequence[tuple[int, int]]],
) -> SlurmJob:
    job, index, state, reason, nodes, ended, partition, starts, priority, comment = words
    number = int(index) if index.isdecimal() else -1
    if reason.startswith(_LACKS_NODES):
        reason = reasons.get(partition, reason)
    ahead = 0
    if reason in TURNS and priority.isdecimal() and job.isdecimal():
        # Jobs of a higher priority, or of the same priority and older.
        own, queue = (-int(priority), int(job)), queues.get(partition, ())
        ahead = len({each for level, each in queue if (-level, each) < own and each != own[1]})
    return SlurmJob(job, number, state, reason, nodes, ended, comment, starts, ahead, partition)


def look_up(job: str, index: int) -> SlurmJob | None:
    """Returns a job that has ended; None without accounting, or if that knows no end of it."""
    name = job if index < 0 else f"{job}_{index}"
    # Not --json: with it, Slurm 22.05 reports failed jobs as successful.
    fields = "State,Reason,NodeList,End,Comment"
    try:
        listed = commands.run(["sacct", "-n", "-P", "-X", "-j", name, "-o", fields])
    except (commands.CommandFailed, AgentError):
        return None
    for line in reversed([each for each in listed.splitlines() if each.count("|") >= 4]):
        state, reason, nodes, ended, comment = line.split("|", 4)
        # Strips "CANCELLED by 1000". A row without an end belongs to a job that slurmdbd has lost.
        state = state.partition(" ")[0]
        if state in ENDED and ended != "Unknown":
            return SlurmJob(job, index, state, reason, nodes, ended, comment)
    return None


# Seconds to which Slurm's expected start is rounded, so that it is more stable; and beyond which it
# is ignored: Slurm assumes that a job without a time limit runs for a year.
_ABOUT = 300
_LATEST = 30 * 86400.0

# Descriptions of Slurm's reasons that are unclear to users.
_REASONS = {
    "Resources": "waiting for nodes",
    "Priority": "other jobs come first",
    "Dependency": "waiting for other jobs",
    "JobArrayTaskLimit": "as many tasks run as `max_parallel` says",
    "BeginTime": "it starts again in a moment",
    "None": "",
    "JobHeldUser": "held: scontrol release {job}",
    "JobHeldAdmin": "held by an administrator",
    "launch failed requeued held": "held: it could not be started on its node; once that is"
    " fixed: scontrol release {job}",
    "JobHoldMaxRequeue": "held: it could not be started several times; once that is fixed:"
    " scontrol release {job}",
    "job requeued in held state": "held: scontrol release {job}",
    "job requeued in special exit state": "held for its exit code: scontrol release {job}",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "DependencyNeverSatisfied": "a job that it comes after did not succeed",
}

# Commands with which an operator resumes suspended jobs.
_SUSPENDED = {"SUSPENDED": "scontrol resume {0.id}", "STOPPED": "scancel --signal=CONT {0.id}"}

_ENDS: dict[str, tuple[str, int, str]] = {
    "CANCELLED": ("cancelled", CANCELLED, "cancelled in Slurm"),
    "TIMEOUT": ("failed", TIMED_OUT, "its time limit in Slurm was over"),
    "DEADLINE": ("failed", TIMED_OUT, "its deadline in Slurm was over"),
    "NODE_FAIL": ("failed", SERVICE, "node {nodes} failed"),
    "BOOT_FAIL": ("failed", SERVICE, "node {nodes} did not start"),
    "OUT_OF_MEMORY": ("failed", KILLED, "out of memory"),
    "PREEMPTED": ("failed", SERVICE, "preempted, and not started again"),
    "REVOKED": ("failed", SERVICE, "revoked by Slurm"),
    "FAILED": ("failed", SERVICE, "its job failed before it could report why: see slurm.txt"),
    "COMPLETED": ("failed", SERVICE, "its job ended without a report: see slurm.txt"),
}


def view_of(element: SlurmJob, now: float, node: str = "") -> JobView:
    """Returns the view of a task's job from squeue or sacct; `node` is where the task last ran."""
    if element.state in _ENDS:
        state, code, reason = _ENDS[element.state]
        if element.reason == "DependencyNeverSatisfied":
            reason = _REASONS[element.reason]
        ended = seconds(element.ended)
        return JobView(
            state,
            reason.format(nodes=element.nodes or node),
            code,
            ended,
            unreported=element.state in ("COMPLETED", "FAILED") and bool(ended),
            timed_out=code == TIMED_OUT,
        )
    if element.state in WAITING:
        return JobView("queued", explain(element) + expected_start(element, now))
    if element.state == "CONFIGURING":
        return JobView("queued", "its nodes are starting")
    if element.state in _SUSPENDED:
        reason = f"suspended in Slurm: {_SUSPENDED[element.state].format(element)}"
        return JobView("running", reason, suspended=True)
    return JobView("running")


def explain(element: SlurmJob) -> str:
    """Formats why a job waits."""
    if element.reason in TURNS and element.ahead:
        return queue_reason(element.ahead)
    known = _REASONS.get(element.reason)
    return element.reason if known is None else known.format(job=element.id)


def expected_start(element: SlurmJob, now: float) -> str:
    """Formats when Slurm expects a pending job to start, to be appended to the reason; or ""."""
    moment = seconds(element.starts) if element.reason in TURNS else 0.0
    if not now < moment < now + _LATEST:
        return ""
    about = time.gmtime(-(-moment // _ABOUT) * _ABOUT)
    return time.strftime("; Slurm expects it to start by %Y-%m-%d %H:%M UTC", about)


def seconds(text: str) -> float:
    """Parses Slurm's form of a time into seconds since 1970; 0 if it is unset."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0
