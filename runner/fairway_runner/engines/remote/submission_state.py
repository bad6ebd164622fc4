"""A run's submission to a cluster or a pool, as known here: the run's file `engine.json`, and the
states of the run that its target never reports, as it has not begun there or is to run again."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fairway_agent import state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import JsonRecord
from fairway_agent.state_files import RunState
from fairway_boot import files
from fairway_runner.runs.records import known_state, known_task, read_if_there, read_retry

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder

_FILE = "engine.json"


@dataclass
class SubmissionRecord(JsonRecord, label="the submission"):
    """The last submission of a run: `submission` counts the starts of the run, from 0, including
    retries. `complete` says that the target has taken it over, as these `jobs`, and `sampled` that
    it has ended and all samples of its nodes are here."""

    submission: int
    complete: bool = False
    jobs: tuple[str, ...] = ()
    sampled: bool = False

    @classmethod
    def read(cls, run: RunFolder) -> Self | None:
        """Reads the last one; None before the first. Raises UserError if the file is damaged."""
        return read_if_there(run.folder / _FILE, cls.from_json)

    def write(self, run: RunFolder) -> None:
        """Replaces the file."""
        files.write_json(run.folder / _FILE, self.to_json())


def begin(run: RunFolder, *, retry: bool) -> SubmissionRecord:
    """Begins a submission, or resumes an interrupted one that has not ended; the caller holds the
    run's lock. The run is queued, and so are the tasks of a retry, as `retry.json` has them."""
    last = SubmissionRecord.read(run)
    has_ended = retry and last and (last.complete or known_state(run.folder).is_final)
    if last is not None and not has_ended:
        return last
    new = SubmissionRecord(0 if last is None else last.submission + 1)
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
    """Queues a retry's tasks and the last one; returns the attempts that each has had."""
    numbers = sorted(read_retry(run.folder).only)
    attempts = {}
    for number in [*numbers, run.record.tasks - 1] if run.has_last else numbers:
        status = known_task(run.task_folder(number))
        attempts[run.task_name(number)] = status.attempts if status else 0
        if status:
            state_files.write(run.task_folder(number), status.again)
    return attempts


def note_incomplete_submission(run: RunFolder) -> None:
    """Gives the run a reason if its submission was interrupted."""
    reason, state = run.incomplete_submission_reason, known_state(run.folder)
    if reason and state.reason != reason:
        state_files.write(run.folder, replace(state, reason=reason))


def end_cancelled(run: RunFolder) -> None:
    """Writes the end of a run whose end the cluster will never report."""
    state = replace(known_state(run.folder), state="cancelled", reason=None, ended=time.time())
    state_files.write(run.folder, state)
