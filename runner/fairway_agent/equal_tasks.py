"""The tasks of other runs that tasks of a run come after, each after the one of an equal point.

Which that is stands in the task's line (`TaskSpec.equal`); how it must have ended is what the plan
says of its run. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import predecessors, state_files
from fairway_agent.fields import Damaged
from fairway_agent.task_state import CANCELLED, SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_agent.plan import RunPlan
    from fairway_agent.run_state import RunState
    from fairway_agent.task_state import TaskState


def _nothing_is(_: Path) -> bool:
    """Of no run is it known that nothing goes on of it but what its state says."""
    return False


@dataclass
class EqualTasks:
    """Those of a run by its plan; `is_gone` tells of the folder of another run that nobody sees to
    it any more, so that what has no last state yet was lost."""

    plan: RunPlan
    is_gone: Callable[[Path], bool] = _nothing_is
    folders: dict[str, Path] = field(init=False)
    _known: dict[tuple[str, int], str | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.folders = {Path(each).name: Path(each) for each in self.plan.equal}

    def stamp(self) -> tuple[object, ...]:
        """What changes whenever a task of the other runs has ended."""
        return tuple((_changed(each), self.is_gone(each)) for each in self.folders.values())

    def forget_going(self) -> None:
        """Looks again at those that went on."""
        self._known = {key: said for key, said in self._known.items() if said is not None}

    def unmet(self, equal: Mapping[str, int]) -> str | None:
        """Why a task does not begin whose equal ones these are, as `left out: prepare task 3
        failed`; "" where it may, and None while one goes on and all others have ended as wanted."""
        said = [self._said(run, number) for run, number in equal.items() if run in self.folders]
        if bad := [each for each in said if each]:
            return f"left out: {', '.join(bad)}"
        return None if None in said else ""

    def going(self, equal: Mapping[str, int]) -> str:
        """Which of a task's equal ones go on, as `prepare task 3`; "" for none."""
        known = ((run, number) for run, number in equal.items() if run in self.folders)
        return ", ".join(
            f"{self.plan.equal[str(self.folders[run])]} task {number}"
            for run, number in known
            if self._said(run, number) is None
        )

    def _said(self, run: str, number: int) -> str | None:
        key = run, number
        if self._known.get(key) is None:
            self._known[key] = self._look(run, number)
        return self._known[key]

    def _look(self, run: str, number: int) -> str | None:
        """How one has ended that was to end otherwise; "" where it was to end so, None where it
        goes on."""
        folder, wanted = self.folders[run], self.plan.conditions.get(run, predecessors.SUCCEEDED)
        called = f"{self.plan.equal[str(folder)]} task {number}"
        is_gone = self.is_gone(folder)  # before what it ended with
        try:
            whole = state_files.read_run(folder)
            task = state_files.read_task(folder / "tasks" / str(number))
        except (OSError, Damaged):
            return f"{called} cannot be read"
        if whole is None:
            return f"{called} was removed"
        ended = _end(whole, task, is_gone=is_gone)
        if ended is None:
            return None
        state, code = ended
        if predecessors.is_met(wanted, state, code):
            return ""
        said = {"cancelled": "was cancelled", "lost": "was lost"}.get(state, state)
        if state == "cancelled" and code is None:
            said = "did not begin"
        return f"{called} {said}" + (
            f" with exit code {code}" if state == "failed" and code else ""
        )


def _end(
    whole: RunState, task: TaskState | None, *, is_gone: bool
) -> tuple[str, int | None] | None:
    """The state and the exit code of a task that has ended; None of one that goes on."""
    if task is not None and task.is_final:
        state, code = task.state, task.exit_code
    elif whole.is_final or is_gone:
        begun = task is not None and task.attempts
        state, code = "lost" if begun or not whole.is_final else "cancelled", None
    else:
        return None
    if state == "cancelled":
        code = CANCELLED if task is not None and task.attempts else None
    return state, SERVICE if state == "lost" and code is None else code


def _changed(folder: Path) -> tuple[int, int]:
    """What is another whenever the state of a run was written: it counts its tasks."""
    try:
        found = (folder / state_files.FILE).stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def none_began(folder: Path, plan: RunPlan) -> bool:
    """Whether all tasks of a run that wait by equal point were left out: nothing comes after
    them."""
    if not plan.equal:
        return False
    tasks = (folder / "tasks").glob("*/" + state_files.FILE)
    known = (state_files.read_task(each.parent) for each in tasks)
    return not any(each is not None and each.attempts for each in known)
