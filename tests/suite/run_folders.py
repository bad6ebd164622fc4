"""The folder of a run on its cluster, as written by the client and taken over by a scheduler."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairway_agent import control, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.state_files import RunState


def bring(
    folder: Path,
    plan: RunPlan,
    specs: Iterable[TaskSpec] = (),
    target: dict[str, Any] | None = None,
) -> Path:
    """Writes the client's files: a plan, its tasks, an empty job and the target."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(plan.text())
    (folder / "job.json").write_text("{}")
    (folder / "target.json").write_text(json.dumps(target or {}))
    (folder / "tasks.jsonl").write_text("".join(each.line() for each in specs))
    return folder


def take_over(folder: Path, job: str, tasks: int = 1, nodes: int = 1) -> None:
    """Records that a scheduler has all tasks of the run as one job, of which none has started."""
    part = Part("tasks", 0, Numbers(range(tasks)), nodes, 1, job)
    control.change(folder, 0, parts=(part,), complete=True)
    state_files.write(folder, RunState(tasks={"queued": tasks}))
