"""Watches for scheduled events of this VM, and drains the node before they happen.

Spot capacity is taken back with half a minute's notice, maintenance is announced some minutes
ahead. The node takes no new job, and its jobs are requeued, for which they get Slurm's KillWait;
then the event is approved. A job of Fairway's is asked to requeue itself: it sends its program the
job's own signal, on all its nodes, and leaves it the job's own grace.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot.http import Failure
from fairway_boot.slurm import commands
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from fairway_boot.imds import Event, Metadata
    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
_DELETED = frozenset({"POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN"})
_SECOND = 1.0
# The part of a notice that is reserved for the answer to Azure.
_RESERVE = timedelta(seconds=3)
_LONGEST = timedelta(minutes=2)
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_NAME = re.compile(r"-N (\S+)")


def main() -> int:
    """Watches until it is stopped; returns 1 if the service does not name this machine."""
    settings, metadata = begin()
    me, known = metadata.machine().name, dict[str, str]()
    if not me:  # without a name it would react to events of all its neighbours
        _log.critical("the metadata service does not say what this machine is called")
        return 1
    while True:
        watch(settings, metadata, me, known)
        time.sleep(_SECOND)


def watch(settings: Settings, metadata: Metadata, me: str, known: dict[str, str]) -> None:
    """Looks once, and handles new events; `known` maps the ids of events to why they could not be
    handled yet, "" if they were, and "" to why the events are unknown."""
    try:
        planned = metadata.endings(me)
    except Failure as failure:
        if known.get("") != str(failure):
            _log.warning("%s", failure)
        known[""] = str(failure)
        return
    known.pop("", None)
    for event in planned:
        if event.id not in known:
            _log.warning("Azure announces %s, not before %s", event.kind, event.not_before or "now")
        if before := known.get(event.id, "news"):
            known[event.id] = drain_and_approve(settings, metadata, event, before)


def drain_and_approve(settings: Settings, metadata: Metadata, event: Event, before: str) -> str:
    """Drains the node, requeues its jobs, approves the event when they are gone, and returns "". If
    Slurm did not answer and there is time to try again, it returns the reason, which it logs unless
    it was the same `before`: Azure waits meanwhile, and a scheduler that is being replaced is back
    after some minutes."""
    try:
        name = node_name(settings)
        # Slurm itself deletes the VM: a drained node would stay drained in the cloud state.
        known = commands.nodes(settings).get(name)
        if known is None or not known.state & _DELETED:
            commands.update_nodes(settings, [name], "drain", f"Azure: {event.kind}")
            jobs = _jobs(settings, name)
            # The batch scripts of Fairway's jobs handle the signal.
            asked = [job for job, comment in jobs.items() if comment.startswith("fairway ")]
            for job in jobs:
                (_ask if job in asked else _requeue)(settings, job)
            deadline = _deadline(event)
            while datetime.now(timezone.utc) < deadline and _jobs(settings, name):
                time.sleep(_SECOND)
            for job in set(asked) & set(_jobs(settings, name)):
                _requeue(settings, job)
    except (commands.CommandFailed, OSError) as error:
        if str(error) != before:
            _log.error("%s", error)
        if datetime.now(timezone.utc) < _notice(event):
            return str(error)
    try:
        metadata.acknowledge(event)
    except Failure as failure:
        # The event then happens at the end of the notice.
        _log.warning("%s", failure)
    return ""


def node_name(settings: Settings) -> str:
    """Returns the name under which slurmd runs here. Raises OSError if it has none."""
    found = _NAME.search(Path(settings.name_file).read_text(encoding="utf-8"))
    if found is None:
        raise OSError(f"{settings.name_file} names no node")
    return found[1]


def _ask(settings: Settings, job: str) -> None:
    """Signals the job's batch script that its nodes are about to go."""
    try:
        commands.run_command(settings, "scancel", "--batch", "--signal=USR2", job, timeout=10)
        _log.info("job %s was asked to go back to the queue", job)
    except commands.CommandFailed as error:
        _log.warning("%s", error)
        _requeue(settings, job)


def _requeue(settings: Settings, job: str) -> None:
    try:
        commands.run_command(settings, "scontrol", "requeue", job, timeout=10)
        _log.info("job %s is back in the queue", job)
    except commands.CommandFailed as error:
        # Submitted with --no-requeue, the job ends with the node.
        _log.warning("%s", error)


def _jobs(settings: Settings, name: str) -> dict[str, str]:
    """Returns the comments of the jobs on this node by their ids, each element of an array by its
    own."""
    live = "running,configuring,suspended,completing"
    out = commands.run_command(
        settings, "squeue", "-h", "-w", name, "-t", live, "-o", "%A %k", timeout=10
    )
    found = (line.partition(" ") for line in out.splitlines() if line.strip())
    return {job: comment for job, _, comment in sorted(found)}


def _deadline(event: Event) -> datetime:
    """Returns until when jobs may end by themselves: shortly before Azure acts."""
    now = datetime.now(timezone.utc)
    return min(now + _LONGEST, _notice(event, now + _LONGEST / 4))


def _notice(event: Event, otherwise: datetime = _NEVER) -> datetime:
    """Returns the time shortly before Azure acts, or a default if the event has no readable one."""
    try:
        return parsedate_to_datetime(event.not_before).astimezone(timezone.utc) - _RESERVE
    except (TypeError, ValueError, OverflowError):
        return otherwise


if __name__ == "__main__":
    sys.exit(main())
