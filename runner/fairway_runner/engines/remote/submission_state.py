"""State of a run's submission to a cluster, as known on this machine: the run's file
`engine.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import JsonRecord
from fairway_agent.shared.reports import InputsReport, InputsRequest
from fairway_agent.state_files import RunState
from fairway_boot import files
from fairway_runner.engines.outage import gone_input
from fairway_runner.runs.records import known_as, known_task, read_plan, read_retry

if TYPE_CHECKING:
    from fairway_agent.spec import Chained
    from fairway_runner.engines.remote.remote_host import RemoteHost
    from fairway_runner.runs.folder import RunFolder

_FILE = "engine.json"


@dataclass(frozen=True)
class Submission(JsonRecord, called="the submission"):
    """The last submission of a run: `submission` counts the times that it was started, from 0, and
    each retry is another. `complete` says that the cluster has taken it over, as these `jobs`, and
    `sampled` that it has ended and all samples of its nodes are here."""

    submission: int
    complete: bool = False
    jobs: tuple[str, ...] = ()
    sampled: bool = False

    def write(self, run: RunFolder) -> None:
        """Replaces the file."""
        files.write_json(run.folder / _FILE, self.to_json())


def read(run: RunFolder) -> Submission | None:
    """The last submission; None before the first has begun. UserError where the file is damaged."""
    return known_as(run.folder / _FILE, Submission.from_json)


def begin(run: RunFolder, *, retry: bool) -> Submission:
    """Begins a submission, or goes on with one that was cut off; the caller holds the run's lock.
    The run is queued, and so are the tasks of a retry, as `retry.json` has them."""
    last = read(run)
    if last is not None and not (retry and last.complete):
        return last
    new = Submission(0 if last is None else last.submission + 1)
    with run.mirroring():
        if retry:
            wanted = replace(read_retry(run.folder), submission=new.submission)
            files.write_json(run.folder / "retry.json", wanted.to_json())
            queue_tasks_again(run)
            done: dict[str, int] = {each: n for each, n in wanted.done.items() if n}
            queued = run.record.tasks - sum(done.values())
            state_files.write(run.folder, RunState(tasks={**done, "queued": queued}))
        new.write(run)
    return new


def queue_tasks_again(run: RunFolder) -> dict[str, int]:
    """Queues the tasks of a retry, the last one among them; the attempts that each has had."""
    numbers = sorted(read_retry(run.folder).only)
    attempts = {}
    for number in [*numbers, run.record.tasks - 1] if run.has_last else numbers:
        status = known_task(run.task_folder(number))
        attempts[run.task_name(number)] = status.attempts if status else 0
        if status:
            state_files.write(run.task_folder(number), status.again)
    return attempts


_INPUTS = "fairway_agent.shared.runs.inputs"


@dataclass(frozen=True)
class Inputs:
    """Inputs of one run that come from other runs; the host is asked only if there are any."""

    run: RunFolder
    remote: RemoteHost
    entries: Sequence[Chained]

    @classmethod
    def of(cls, run: RunFolder, remote: RemoteHost) -> Inputs:
        """By the run's plan; what it waits for is not there yet."""
        plan = read_plan(run.folder)
        return cls(run, remote, [each for each in plan.chained if not plan.awaits(each)])

    def missing(self) -> Mapping[str, str]:
        """The inputs to copy there, by path, with their folders; Refused where one has gone."""
        if not self.entries:
            return {}
        request = InputsRequest(self.run.id, tuple(each.path for each in self.entries))
        missing = self.remote.call(_INPUTS, request, InputsReport).missing
        for each in self.entries:
            if each.path in missing and not (
                each.source is not None and self._folder(each).is_dir()
            ):
                raise gone_input(each.name, each.source or each.path)
        return missing

    def bring(self, missing: Mapping[str, str]) -> None:
        """Copies them; the run has them from now on."""
        copied = {each.path: each for each in self.entries if each.source is not None}
        for path, each in copied.items():
            if path in missing:
                folder, deadline = self._folder(each), self.remote.deadline
                self.remote.connection.upload(folder, missing[path], deadline=deadline)
        if copied:
            request = InputsRequest(self.run.id, tuple(copied), adopt=True)
            self.remote.call(_INPUTS, request, InputsReport)

    def _folder(self, entry: Chained) -> Path:
        assert entry.source is not None, "it is copied from here"
        return self.run.folder.parents[1] / entry.source
