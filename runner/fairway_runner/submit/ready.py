"""A job file that is ready to start, whether it has one job or several steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.jobs.job_file import has_steps
from fairway_runner.runs.folder import TakenId
from fairway_runner.submit.submission import Prepared
from fairway_runner.submit.target_selection import choose, prepare_for, start_on_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.findings import Finding
    from fairway_core.target import Target
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import Run, RunRecord, RunStore
    from fairway_runner.submit.steps import PreparedSteps

MANY = 1_000
"""Tasks of which more are started only where that is confirmed."""


@dataclass(frozen=True)
class Ready:
    """What a job file makes; nothing of it is written yet."""

    prepared: Prepared | PreparedSteps

    @property
    def record(self) -> RunRecord:
        """What will be written down of the run."""
        return self.prepared.record

    @property
    def warnings(self) -> Sequence[Finding]:
        """What a person should hear of."""
        return self.prepared.warnings

    @property
    def tasks(self) -> int:
        """All that it starts, those of steps too."""
        made = self.prepared
        return made.record.tasks if isinstance(made, Prepared) else made.tasks

    @property
    def next_targets(self) -> list[str]:
        """The targets that are tried where the first refuses it."""
        others = self.prepared.others if isinstance(self.prepared, Prepared) else []
        return [each.record.target for each in others]

    @property
    def targets(self) -> list[Target]:
        """All on which some of it may run."""
        from fairway_runner.runs import steps
        from fairway_runner.targets.lookup import find_target

        made = self.prepared
        if isinstance(made, Prepared):
            return [each.plan.engine.target for each in (made, *made.others)]
        names = {each["target"] for each in json.loads(made.files[steps.FILE])["steps"]}
        return [find_target(name) for name in sorted(names)]

    def sign(self, by: dict[str, str]) -> None:
        """Writes down who submits it: their name and id."""
        from fairway_runner.runs.labels import signed

        files = self.prepared.files
        files["provenance.json"] = signed(files["provenance.json"], by)

    @property
    def scripts(self) -> Mapping[str, str]:
        """The script of the first task, by "", or that of each step by its name."""
        if isinstance(self.prepared, Prepared):
            return {"": self.prepared.plan.first_script}
        return self.prepared.scripts

    def require_free(self, store: RunStore) -> None:
        """UserError where another job has the ID of the run, as at its start."""
        from fairway_runner.submit.resume import earlier

        made = self.prepared
        alike = (*made.others, *made.passed) if isinstance(made, Prepared) else ()
        earlier(store, self.record.id, made.files, *(each.files for each in alike))

    def start(self, store: RunStore) -> Run:
        """Records the run and starts it; one of the same id and the same job goes on."""
        try:
            return self._start(store)
        except TakenId:
            return self._start(store)  # another command has recorded it just now

    def _start(self, store: RunStore) -> Run:
        if isinstance(self.prepared, Prepared):
            return start_on_first(self.prepared, store)
        from fairway_runner.submit.steps import start_steps

        return start_steps(self.prepared, store)


def make_ready(
    job_file: JobFile,
    store: RunStore,
    targets: Sequence[str] = (),
    *,
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> Ready:
    """Looks at all that can be wrong with a job file; UserError where something is.

    `targets` is where it runs in place of what it says. `asks` is whether targets are asked, which
    takes its time; `copies` is as for `prepare`.
    """
    made: Prepared | PreparedSteps
    if run_id is not None:
        from fairway_runner.submit.resume import require_run_id

        require_run_id(run_id)
    if has_steps(job_file.document.data):
        from fairway_runner.submit.steps import prepare_steps

        made = prepare_steps(job_file, store, targets, run_id=run_id, asks=asks, copies=copies)
    else:
        choice = choose(job_file, targets)
        made = prepare_for(job_file, choice, store, run_id=run_id, asks=asks, copies=copies)
    if tags or note is not None:
        from fairway_runner.runs.labels import labelled

        made.record = labelled(made.record, tags, note)
    return Ready(made)


def many(tasks: int, hint: str) -> UserError:
    """The error for a number of tasks that nobody has confirmed."""
    return UserError.of("many-tasks", f"this starts {tasks:,} tasks", hint)
