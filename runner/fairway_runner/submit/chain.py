"""Inputs that other runs have kept: found when a job is submitted, and recorded with the run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.jobs.job_fields import BestInput, KeptInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_agent.plan import Chained, Staged
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import RunStore


class NotKept(UserError):
    """The other run has ended, and has not kept what is wanted: no later try finds it."""


@dataclass
class Chain:
    """The inputs of a job that other runs have kept, as its plan has them, and by the name of each
    input which run, task and output that is. `copies` is whether those that lie on another target
    are brought to this machine; else nothing can be started by that plan. `going` is as for `of`;
    `asks` is whether the targets of other runs are asked how these stand."""

    chained: list[Chained] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    copies: bool = True
    going: Collection[str] = ()
    asks: bool = True

    @classmethod
    def of(
        cls,
        job_file: JobFile,
        job: Job,
        engine: Engine,
        store: RunStore,
        coming: Collection[str] = (),
        going: Collection[str] = (),
        *,
        copies: bool = True,
        asks: bool = True,
    ) -> Chain:
        """Looks for them, but for those of the runs that are `coming`; UserError at its line for
        one that is not there, or not yet. What the runs that are `going` keep is there once they
        have ended, and where the tasks see it."""
        found = cls(copies=copies, going=going, asks=asks)
        for name, source in job.inputs.items():
            if isinstance(source, KeptInput | BestInput) and _run_of(source) not in coming:
                with _located(job_file, name):
                    found._add(name, source, engine, store)
        return found

    def _add(
        self, name: str, source: KeptInput | BestInput, engine: Engine, store: RunStore
    ) -> None:
        # Few jobs have such an input.
        from fairway_agent.plan import Chained
        from fairway_runner.submit.kept_input import find_best, find_kept

        if isinstance(source, BestInput) and source.best.run in self.going:
            entry, self.facts[name] = find_best(name, source.best, store)
            self.chained.append(entry)
            return
        kept, self.facts[name] = find_kept(
            *(name, source, store), going=self.going, brings=self.copies, asks=self.asks
        )
        found = engine.input_from(name, kept)
        if isinstance(found, Chained):
            self.chained.append(found)
        else:
            self.staged.append(found)


@contextmanager
def _located(job_file: JobFile, name: str) -> Iterator[None]:
    """What is wrong with an input is shown at its line."""
    try:
        yield
    except UserError as error:
        from fairway_runner.engines.absence import is_away

        path, location = f"inputs.{name}", job_file.document.location(("inputs", name))
        found = [
            replace(each, path=path, location=location) if each.location is None else each
            for each in error.findings
        ]
        may_come = is_away(error) or error.exit_code != 2 or error.findings[0].id == "running-run"
        kind = UserError if may_come else NotKept
        raise kind(found, exit_code=error.exit_code) from None


def _run_of(source: KeptInput | BestInput) -> str:
    """The run that is named."""
    return (source.best if isinstance(source, BestInput) else source).run
