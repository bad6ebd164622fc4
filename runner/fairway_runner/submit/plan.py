"""What a supervisor is told to do, as the files of a run's folder.

plan.json       what holds for all tasks
setup.jsonl     one line, where the job has a setup
tasks.jsonl     a line a task: its script and what differs from task to task
finally.jsonl   one line, where the job has a last task
retry.json      keys over those of plan.json when tasks of an ended run are run again: `only`
                the numbers of these tasks, `done` the counts of the others by their state,
                `is_set_up` whether the setup is left out, `after` as in plan.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from fairway_core.notifications import Notify
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job


@dataclass
class Plan:
    """The plan of one run, put together task by task.

    `directory` is where the tasks run, `inputs` the variables that name their inputs,
    `staged` what is copied before them, `after` the runs to wait for, as the engine names them,
    `needs` the programs that the main host must have.
    """

    run: str
    engine: Engine
    directory: PurePath
    inputs: Mapping[str, str]
    staged: Sequence[Mapping[str, str]] = ()
    after: Sequence[str] = ()
    needs: Sequence[str] = ()
    tasks: list[str] = field(default_factory=list)
    setup: str | None = None
    last: str | None = None

    def add(self, job: Job, script: str, checkpoint: str | None) -> None:
        """Adds the next task."""
        self.tasks.append(self._line(len(self.tasks), job, script, checkpoint))

    def set_up_with(self, job: Job, script: str) -> None:
        """The script that runs once before all tasks."""
        alone = job.model_copy(update={"outputs": {}, "nodes": 1})
        self.setup = self._line("setup", alone, script, None)

    def end_with(self, job: Job, script: str) -> None:
        """The task that runs after all others."""
        self.last = self._line(len(self.tasks), job, script, None)

    def files(self, job: Job) -> dict[str, str]:
        """The files by name; `job` says what holds for all tasks."""
        count = len(self.tasks) + (self.last is not None)
        common = {
            "run": self.run,
            "tasks": count,
            "max_parallel": job.sweep.max_parallel if job.sweep else None,
            "directory": str(self.directory),
            "after": list(self.after),
            "needs": list(self.needs),
            "retries": job.retries,
            "timeout": job.timeout,
            "max_duration": job.max_duration,
            "sample_every": job.sample_every,
            "signal": job.checkpoint.signal,
            "grace": job.checkpoint.grace,
            "secrets": list(job.secrets),
            "notify": _receiver(job.notify),
            "environment": {**self.engine.environment(), **self.inputs},
            "staged": [dict(each) for each in self.staged],
        }
        files = {"plan.json": json.dumps(common, indent=1), "tasks.jsonl": "".join(self.tasks)}
        if self.setup is not None:
            files["setup.jsonl"] = self.setup
        if self.last is not None:
            files["finally.jsonl"] = self.last
        return files

    def _line(self, index: int | str, job: Job, script: str, checkpoint: str | None) -> str:
        outputs = {
            name: {"pattern": output.pattern or f"{name}/**", "when": output.when}
            for name, output in job.outputs.items()
        }
        spec: dict[str, Any] = {
            "index": index,
            "params": job.params,
            "nodes": job.nodes,
            "processes_per_node": job.processes_per_node,
            "outputs": outputs,
            "checkpoint": checkpoint,
            "environment": self.engine.task_environment(job.world_size),
            "script": script,
        }
        return json.dumps(spec) + "\n"


def _receiver(notify: Notify | None) -> dict[str, Any] | None:
    """Who hears of the run, as the supervisor reads it."""
    if notify is None:
        return None
    return {**notify.model_dump(mode="json"), "secret": notify.secret}
