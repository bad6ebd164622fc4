"""All that is said of one run: what `show` prints, and the page of `fairway serve`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairway_agent.record import UNSUCCESSFUL_STATES
from fairway_runner.runs.accounting import use_of
from fairway_runner.runs.view import (
    action_facts,
    input_facts,
    run_facts,
    setup_facts,
    target_facts,
    task_facts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.cost.prices import Prices
    from fairway_runner.runs.accounting import Use
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


@dataclass(frozen=True)
class Detail:
    """One run as its folder has it: its facts, its setup's, its tasks, what it has held, and how
    it has used its nodes, in words; "" where they were not sampled."""

    run: Run
    facts: dict[str, Any]
    setup: dict[str, Any] | None
    tasks: Sequence[TaskResult]
    use: Use
    figures: str

    @classmethod
    def of(cls, run: Run) -> Detail:
        """Reads it; UserError for a run that cannot be read."""
        from fairway_runner.runs.figures import figures, in_words

        facts = run_facts(run) | target_facts(run) | {"inputs": input_facts(run)}
        facts |= action_facts(run)
        tasks = run.tasks
        samples = [sample for some in figures(run).values() for sample in some]
        return cls(
            run=run,
            facts=facts,
            setup=setup_facts(run, facts["state"]),
            tasks=tasks,
            use=use_of(run, tasks, _prices),
            figures=in_words(samples),
        )

    @cached_property
    def currency(self) -> str:
        """Of its cost."""
        return _prices().currency

    @property
    def unsuccessful(self) -> list[TaskResult]:
        """The tasks that did not succeed."""
        return [task for task in self.tasks if task.state in UNSUCCESSFUL_STATES]

    @property
    def head(self) -> dict[str, Any]:
        """All of it but the tasks, as plain data; prices are read only where it should have one."""
        return self._head(self.currency if self.use.is_priced else "")

    def _head(self, currency: str) -> dict[str, Any]:
        return {
            **self.facts,
            "job_file": self.run.record.job_file,
            "metrics": list(self.run.record.metrics),
            "folder": self.run.place,
            "setup": self.setup,
            "cost": self.use.to_json(currency),
            "use": self.figures or None,
        }

    @staticmethod
    def rows(tasks: Sequence[TaskResult]) -> list[dict[str, Any]]:
        """The facts of some tasks."""
        return task_facts(tasks)

    def to_json(self, *, failed: bool = False) -> dict[str, Any]:
        """All of it as plain data; with `failed` only the tasks that did not succeed."""
        tasks = self.unsuccessful if failed else self.tasks
        return {**self._head(self.currency), "task_list": self.rows(tasks)}


def _prices() -> Prices:
    # Most runs have no price, and are shown without.
    from fairway_core.cost.cache import prices_at_hand

    return prices_at_hand()
