"""What the engines share whose runs a scheduler of the cluster keeps: they hand a run over, and ask
where it stands."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.shared.reports import CancelRequest, Done, SubmitReport
from fairway_boot.faults import NO_ANSWER
from fairway_core.findings import UserError
from fairway_runner.engines.absence import Absence, clock
from fairway_runner.engines.refusals import Refused
from fairway_runner.engines.remote import submission_state
from fairway_runner.engines.remote.engine import RemoteEngine
from fairway_runner.engines.remote.submission_state import Submission

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.json_record import JsonRecord
    from fairway_runner.runs.folder import RunFolder

_LOG = logging.getLogger("fairway")

# Seconds beyond a job's grace after which a cancelled one is ended by the scheduler.
_CANCEL_SLACK = 20.0


@dataclass
class ScheduledEngine(RemoteEngine):
    """See `engines.engine.Engine` for what each method does.

    REFUSALS are the faults of a run of which nothing was started; DOWN is what to do about a
    scheduler that does not answer.
    """

    pause: ClassVar[float] = 0.5
    REFUSALS: ClassVar[frozenset[str]]
    DOWN: ClassVar[str]
    answered: float = field(default_factory=time.monotonic)
    """When the scheduler last said where runs stand, on the monotonic clock; at first, when it was
    first to be asked."""
    told: bool = False
    """Whether it was said that the scheduler does not answer."""

    def request(self, run: RunFolder, submission: Submission, code: str) -> JsonRecord:
        """What the scheduler is asked for; `code` names the snapshot."""
        raise NotImplementedError

    def start(
        self,
        run: RunFolder,
        lock: int,
        snapshot: Path,
        secrets: Mapping[str, str],
        *,
        retry: bool = False,
    ) -> None:
        """Brings the run to the shared folder and hands it to the scheduler.

        UserError where that refuses it: Refused for a run that never began, of which nothing is
        left there.
        """
        try:
            submission = self.begin(run, retry=retry)
            if submission.complete:
                return
            self.mirror.publish(run, snapshot)
            try:
                request = self.request(run, submission, code=snapshot.name)
                found = self.ask("submit", request, SubmitReport)
            except UserError as error:
                if error.findings[0].id in self.REFUSALS and not submission.submission:
                    raise Refused(error.findings, exit_code=error.exit_code) from None
                raise
            replace(submission, complete=True, jobs=found.jobs).write(run)
        finally:
            os.close(lock)

    def refresh(self, runs: Sequence[RunFolder], *, logs: bool = False) -> None:
        """One command on the host for all of them, and there one question to the scheduler.

        Where that does not answer, what tasks have written themselves is there all the same,
        and it is said once. A command that follows a run puts up with it until the
        deadline: what runs goes on meanwhile.
        """
        silent, now = self.mirror.refresh(runs, logs=logs), time.monotonic()
        if not silent:
            self.answered, self.told = now, False
        elif now - self.answered > self.deadline:
            raise UserError.of(NO_ANSWER, silent, self.DOWN, exit_code=5)
        elif not self.told:
            self.told = True
            since = clock(min(run.last_known for run in runs))
            text = "%s: %s; states are as they were last known at %s"
            _LOG.warning(text, self.target.name, silent, since)

    def wait(self, run: RunFolder) -> None:
        """Looks at it until it has ended."""
        absence = Absence(run, self.deadline)
        absence.look(lambda: self.refresh([run]))
        while not submission_state.is_final(run):
            time.sleep(self.pause)
            absence.look(lambda: self.refresh([run]))

    def cancel(self, run: RunFolder) -> None:
        """Tells the scheduler, and what runs gets the job's signal and its grace."""
        self.refresh([run])
        if submission_state.is_final(run):
            return
        last = submission_state.read(run) or Submission(0)
        request = CancelRequest(run.id, last.submission)
        self.ask("cancel", request, Done)
        self.mirror.cancel_unknown(run)
        from fairway_runner.runs.records import read_plan

        deadline = time.monotonic() + read_plan(run.folder).grace + _CANCEL_SLACK
        while not submission_state.is_final(run):
            self.refresh([run])
            if time.monotonic() > deadline:
                self.ask("cancel", replace(request, kill=True), Done)
                break
            time.sleep(_pause_of(deadline, self.pause))
        self.wait(run)


def _pause_of(deadline: float, pause: float) -> float:
    return max(0.0, min(pause, deadline - time.monotonic()))
