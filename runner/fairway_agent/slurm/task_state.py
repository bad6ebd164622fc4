"""Slurm's words for where a job stands and why, as everybody else's. Standard library only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fairway_agent.reconcile import JobView
from fairway_agent.slurm.jobs import TURNS, WAITING
from fairway_agent.task_state import CANCELLED, KILLED, SERVICE, TIMED_OUT

if TYPE_CHECKING:
    from fairway_agent.slurm.jobs import Element

# To how many seconds a start that Slurm expects is told, so that it is not another each time; and
# from when on it is none: Slurm takes a job without a time limit to go on for a year.
_ABOUT = 300
_LATEST = 30 * 86400.0

# Of Slurm's reasons for which a job waits, those that it does not word for everyone.
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

# How an operator lets those go on that have their nodes and do nothing.
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


def view_of(element: Element, now: float, node: str = "") -> JobView:
    """A task's job as squeue or sacct has it; `node` is where the task said last that it ran."""
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
        reason = explain(element) + expected(element, now)
        return JobView("queued", reason)
    if element.state == "CONFIGURING":
        return JobView("queued", "its nodes are starting")
    if element.state in _SUSPENDED:
        reason = f"suspended in Slurm: {_SUSPENDED[element.state].format(element)}"
        return JobView("running", reason, suspended=True)
    return JobView("running")


def explain(element: Element) -> str:
    """Why a job waits, for a person."""
    if element.reason in TURNS and element.ahead:
        first = "1 other job comes" if element.ahead == 1 else f"{element.ahead:,} other jobs come"
        return f"{first} first"
    known = _REASONS.get(element.reason)
    return element.reason if known is None else known.format(job=element.id)


def expected(element: Element, now: float) -> str:
    """When Slurm expects a job that waits for its turn to start, to be added to why it waits; ""
    where it does not say."""
    moment = seconds(element.starts) if element.reason in TURNS else 0.0
    if not now < moment < now + _LATEST:
        return ""
    about = time.gmtime(-(-moment // _ABOUT) * _ABOUT)
    return time.strftime("; Slurm expects it to start by %Y-%m-%d %H:%M UTC", about)


def seconds(text: str) -> float:
    """Slurm's own form of a time, in seconds since 1970; 0 where it has none."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0
