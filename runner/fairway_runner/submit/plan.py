"""What a run is to do, as a job says it: the files that `fairway_agent.plan` describes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.task_spec import LAST, Output, TaskSpec
from fairway_runner.submit.task_lines import TaskLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from fairway_agent.plan import Budget, Chained, IdleGpu, Receiver, Staged
    from fairway_core.notifications import Notify
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job import Output as JobOutput
    from fairway_runner.runs.folder import Content


@dataclass
class Plan:
    """The plan of one run, put together task by task.

    `directory` is where the tasks run, `inputs` the variables that name their inputs, `staged` what
    is copied before them, `chained` what other runs have kept, `after` the runs to wait for, as the
    engine names them, `conditions` how those must have ended, `needs` the
    programs that the main host must have, `budget` what the run may cost.
    """

    run: str
    engine: Engine
    directory: PurePath
    inputs: Mapping[str, str]
    staged: Sequence[Staged] = ()
    chained: Sequence[Chained] = ()
    after: Sequence[str] = ()
    conditions: Mapping[str, str | list[int]] = field(default_factory=dict)
    needs: Sequence[str] = ()
    budget: Budget | None = None
    tasks: TaskLines = field(default_factory=TaskLines)
    setup: str | None = None
    release: str | None = None
    last: str | None = None

    @property
    def first_script(self) -> str:
        """The script of the first task."""
        return str(json.loads(self.tasks.first)["script"])

    def add(self, job: Job, script: str, checkpoint: str | None) -> None:
        """Adds the next task."""
        self.tasks.append(self._line(len(self.tasks), job, script, checkpoint))

    def set_up_with(self, job: Job, script: str) -> None:
        """The script that runs once before all tasks."""
        self.setup = self._line("setup", _alone(job), script, None)

    def release_with(self, job: Job, script: str) -> None:
        """The script that runs on each node of the setup when the run has ended."""
        self.release = self._line("release", _alone(job), script, None)

    def end_with(self, job: Job, script: str) -> None:
        """The task that runs after all others."""
        self.last = self._line(LAST, job, script, None)

    def files(self, job: Job) -> dict[str, Content]:
        """The files by name; `job` says what holds for all tasks."""
        from fairway_agent.plan import RunPlan

        count = len(self.tasks) + (self.last is not None)
        common = RunPlan(
            run=self.run,
            directory=str(self.directory),
            tasks=count,
            max_parallel=job.sweep.max_parallel if job.sweep else None,
            after=tuple(self.after),
            conditions=self.conditions,
            needs=tuple(self.needs),
            retries=job.failures_allowed,
            retry_limits=job.retry_limits,
            timeout=job.timeout,
            max_duration=job.max_duration,
            max_cost=self.budget,
            idle_gpu=_idle_gpu(job),
            sample_every=job.sample_every,
            signal=job.checkpoint.signal,
            grace=job.checkpoint.grace,
            secrets=tuple(job.secrets),
            notify=_receiver(job.notify),
            environment={**self.engine.environment(), **self.inputs},
            staged=tuple(self.staged),
            chained=tuple(self.chained),
        )
        files: dict[str, Content] = {"plan.json": common.text(), "tasks.jsonl": self.tasks.pieces()}
        if self.setup is not None:
            files["setup.jsonl"] = self.setup
        if self.release is not None:
            files["release.jsonl"] = self.release
        if self.last is not None:
            files["finally.jsonl"] = self.last
        return files

    def _line(self, index: int | str, job: Job, script: str, checkpoint: str | None) -> str:
        spec = TaskSpec(
            index=index,
            nodes=job.nodes,
            processes_per_node=job.processes_per_node,
            script=script,
            params=job.params,
            outputs={name: _kept(name, output) for name, output in job.outputs.items()},
            checkpoint=checkpoint,
            environment=self.engine.task_environment(job.world_size),
            wanted=job.wanted,
        )
        return spec.line()


def _alone(job: Job) -> Job:
    """The job of what runs once a node, and takes it whole."""
    return job.model_copy(update={"outputs": {}, "nodes": 1, "gpus": None, "cores": None})


def _idle_gpu(job: Job) -> IdleGpu | None:
    from fairway_agent.plan import IdleGpu

    limit = job.idle_gpu
    return None if limit is None else IdleGpu(limit.below, limit.for_, limit.then)


def _receiver(notify: Notify | None) -> Receiver | None:
    """Who hears of the run, as the supervisor reads it."""
    if notify is None:
        return None
    from fairway_agent.plan import Mail, Receiver

    by_mail = None
    if mail := notify.mail:
        by_mail = Mail(mail.to, mail.server, mail.from_, mail.user or "", mail.secret)
    return Receiver(notify.webhook or "", notify.on, notify.form, notify.secret, by_mail)


def _kept(name: str, output: JobOutput) -> Output:
    """An output as the task's line has it."""
    given = output.pattern or f"{name}/**"
    first, *others = (given,) if isinstance(given, str) else given
    return Output(first, output.when, tuple(others), output.exclude, output.required)
