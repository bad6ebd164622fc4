"""Runs of several steps, each of which is a run of its own on its own target."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import state_files
from fairway_agent.state_files import RunState, TaskState
from fairway_boot import files
from fairway_runner.engines.engine import Engine, Secrets
from fairway_runner.engines.outage import RunRefused
from fairway_runner.engines.workflow import WorkflowState
from fairway_runner.runs.folder import RunFolder, several_steps
from fairway_runner.runs.records import (
    FINAL_STATES,
    STEPS_CANCELLED,
    STEPS_LOCK,
    known_state,
    read_retry,
)
from fairway_runner.submit.rerun import retry as run_again
from fairway_runner.submit.submission import resume

if TYPE_CHECKING:
    from fairway_runner.engines.engine import Runs


@dataclass
class StepsEngine(Engine):
    """Engine of a workflow, whose steps have engines of their own; see `engines.engine.Engine`."""

    pause: ClassVar[float] = 0.5

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Starts the steps that depend on no other; in a retry, those that did not succeed."""
        os.close(lock)
        with files.hold_lock(run.folder / STEPS_LOCK):
            workflow = WorkflowState.of(run)
            if retry:
                (run.folder / STEPS_CANCELLED).unlink(missing_ok=True)
                for index in read_retry(run.folder).only:
                    with workflow.collecting_errors(index):
                        self._again(workflow, index)
                state_files.write(run.folder, RunState())
            self._go_on(workflow)

    def refresh(self, runs: Runs, *, logs: bool = False, samples: bool = False) -> None:
        """Refreshes the steps that have begun, and starts none."""
        for run in runs:
            self._look(run, logs=logs, begins=False)

    def go_on(self, run: RunFolder, *, logs: bool = False) -> None:
        self._look(run, logs=logs, begins=True)

    def cancel(self, run: RunFolder) -> None:
        """Ends the active steps; no other begins."""
        if known_state(run.folder).is_final:
            return
        (run.folder / STEPS_CANCELLED).touch()
        with files.hold_lock(run.folder / STEPS_LOCK):
            self._go_on(WorkflowState.of(run))

    def cancel_task(self, run: RunFolder, task: int) -> None:
        """Ends the run of a step; one that has not begun never does."""
        with files.hold_lock(run.folder / STEPS_LOCK):
            workflow = WorkflowState.of(run)
            workflow.end(task)
            self._go_on(workflow, begins=False)

    def main_host(self, run: RunFolder) -> str:
        raise several_steps(run)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        raise several_steps(run)

    def _look(self, run: RunFolder, *, logs: bool, begins: bool) -> None:
        """Advances the steps, unless another command is doing so and writes the results."""
        lock = files.try_lock(run.folder / STEPS_LOCK)
        if lock is None:
            workflow = WorkflowState.of(run)
            workflow.bring_logs(logs=logs)
            workflow.raise_errors()
            return
        try:
            self._go_on(WorkflowState.of(run), logs=logs, begins=begins)
        finally:
            os.close(lock)

    def _go_on(self, workflow: WorkflowState, *, logs: bool = False, begins: bool = True) -> None:
        active = workflow.active() if begins else []
        # Dependent steps are ended first, because they might start otherwise.
        for index in reversed(active) if workflow.is_cancelled else active:
            with workflow.collecting_errors(index):
                own = workflow.run_of(workflow.steps[index])
                if own is None or own.status.is_final:
                    continue
                if workflow.is_cancelled:
                    own.cancel()
                elif own.incomplete_submission_reason:
                    with suppress(RunRefused):  # nothing of it exists: it starts anew, or fails
                        resume(own)
        workflow.look(self.deadline, logs=logs)
        try:
            while begins and workflow.begin_next():
                pass
        finally:
            workflow.write()
        workflow.raise_errors()

    def _again(self, workflow: WorkflowState, index: int) -> None:
        """Retries a step that ran, and resets another to pending; one that was left out stays."""
        own = workflow.run_of(workflow.steps[index])
        if own is not None and own.state in FINAL_STATES and own.state != "succeeded":
            if workflow.is_left_out(index, own):
                return
            run_again(own)
        workflow.states[index] = TaskState()
        state_files.write(workflow.run.task_folder(index), TaskState())


ENGINE = StepsEngine
