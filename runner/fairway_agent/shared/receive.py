"""Takes a run's files, code and inputs, and says what of a submission is there.

Inputs that other runs have kept lie in the folder of the other run, or where that ran elsewhere
below `chained/`, named by what is in them.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from fairway_agent import control, job_facts, scratch, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.prepare import has_failed
from fairway_agent.resources import Wanted
from fairway_agent.shared.reports import InputsReport, InputsRequest, ReceiveReport, ReceiveRequest
from fairway_agent.state_files import RunState
from fairway_boot.files import Fault, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.spec import RunPlan, TaskSpec

    Shape = tuple[int, int, int | None, int | None]


FOLDER = "chained"


def inputs(shared: Path, request: InputsRequest, _: object) -> InputsReport:
    """Says which are missing, or takes those over that were put there for the run."""
    paths = [PurePosixPath(path) for path in request.paths]
    if request.adopt:
        for path in paths:
            adopt(shared / FOLDER, path.name, request.run, "the input")
        return InputsReport()
    try:
        (shared / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(shared, error) from None
    missing = [path for path in paths if not (shared / path).is_dir()]
    drafts = {str(path): str(shared / FOLDER / f".{path.name}.{request.run}") for path in missing}
    return InputsReport(drafts)


def forget_inputs(shared: Path, run: str) -> None:
    """The run is removed, and so are those of its inputs that no other run has."""
    everybody = shared / FOLDER / ".users"
    for users in list(everybody.iterdir()) if everybody.is_dir() else ():
        give_up(shared / FOLDER, users.name, run)


def give_up(base: Path, name: str, run: str) -> None:
    """A run does not use the folder of that name below `base` any more; the last to do so removes
    it."""
    users = base / ".users" / name
    (users / run).unlink(missing_ok=True)
    with suppress(OSError):  # others have it, or none ever had
        for user in list(users.iterdir()):
            if not (base.parent / "runs" / user.name).is_dir():
                user.unlink(missing_ok=True)  # it was taken back while it was submitted
        users.rmdir()
        shutil.rmtree(base / name, ignore_errors=True)


def adopt(base: Path, name: str, run: str, what: str) -> Path:
    """The folder of that name below `base`, made of the draft, and kept while runs have it."""
    folder, draft, users = base / name, base / f".{name}.{run}", base / ".users" / name
    users.mkdir(parents=True, exist_ok=True)
    (users / run).touch()
    if not folder.is_dir():
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another submission of the same was faster
                hint = "submit it again: its copy has not arrived whole, or was removed"
                raise Fault("host-failed", f"{what} is not at {folder}", hint) from None
    shutil.rmtree(draft, ignore_errors=True)
    return folder


def unwritable(shared: Path, error: OSError) -> Fault:
    """The fault of a shared folder in which nothing can be made."""
    message = f"nothing can be written to {shared}: {error.strerror}"
    hint = "it must be a folder that you may write to and that all nodes see"
    return Fault("unwritable-folder", message, hint)


def receive(shared: Path, request: ReceiveRequest, payload: IO[bytes]) -> ReceiveReport:
    """Makes the run's folder from the payload, a tar file, unless it is there."""
    run, code = request.run, request.code
    folder = shared / "runs" / run
    try:
        unpack(folder, payload)
        (shared / "code").mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(shared, error) from None
    return ReceiveReport(
        draft=str(shared / "code" / f".{code}.{run}"),
        has_code=(shared / "code" / code).is_dir(),
    )


def unpack(folder: Path, payload: IO[bytes]) -> None:
    """Makes the folder as a whole; of one that is there only the orders of a retry change."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.{os.uname().nodename}")
    draft.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=payload, mode="r|gz") as files:
            for member in files:
                # Written by a CLI of the same user, and named by it: nothing but plain files.
                if member.isfile() and "/" not in member.name:
                    content = files.extractfile(member)
                    assert content is not None, "a plain file has content"
                    (draft / member.name).write_bytes(content.read())
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / "plan.json").is_file():
                raise
            # Its orders are taken over, unless those of a later retry are there.
            new, known = job_facts.read_retry(draft), job_facts.read_retry(folder)
            if new is not None and new.submission > (known.submission if known else 0):
                (draft / "retry.json").replace(folder / "retry.json")
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def copy_code(shared: Path, code: str, folder: Path) -> None:
    """Adopts the snapshot, and gives the run a copy, in which setup and tasks may write."""
    snapshot = adopt(shared / "code", code, folder.name, "the code")
    draft = folder / ".code"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(snapshot, draft, symlinks=True, copy_function=scratch.copy)
    draft.rename(folder / "code")


def remove(folder: Path) -> None:
    """Removes a run, also the half of one, with its code and inputs where no other has them."""
    gone = folder.with_name(f".{folder.name}.removed")
    if folder.is_dir():
        shared = folder.parents[1]
        if digest := str(facts_of(folder / "provenance.json").get("code", "")):
            give_up(shared / "code", digest[:16], folder.name)
        forget_inputs(shared, folder.name)
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def facts_of(path: Path) -> dict[str, Any]:
    """A file's mapping; nothing where there is none that can be read."""
    try:
        value: object = read_json(path)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_INDEX = "tasks.offsets"


def forget(folder: Path, submission: int) -> None:
    """The scheduler has nothing of it; of a run's first submission nothing is left."""
    control.change(folder, submission, parts=(), complete=False)
    if submission == 0:
        remove(folder)


def shape_of(spec: TaskSpec) -> Shape:
    """The shape of a task, by which tasks are elements of one array: its nodes, its processes on
    each, and its GPUs and cores where it takes a part of one."""
    wanted = spec.wanted or Wanted()
    return spec.nodes, spec.processes_per_node, wanted.gpus, wanted.cores


def spec_of(folder: Path, stage: str, index: int) -> TaskSpec:
    """A task's own line of the plan."""
    path = folder / f"{stage}.jsonl"
    if stage == "tasks":
        return job_facts.read_indexed(path, folder / _INDEX, index)
    return job_facts.read_spec(path)


def prepare(
    shared: Path, folder: Path, number: int, code: str, *, alone: bool = False
) -> list[Part]:
    """Makes the run's folder ready for the submission of that number, with the snapshot `code`; its
    parts. Tasks of one part have the same shape; with `alone` each task of several nodes is a part
    of its own."""
    if not (folder / "code").is_dir():
        copy_code(shared, code, folder)
    plan = job_facts.read_shared_plan(folder, retry=number > 0)
    tasks = folder / "tasks.jsonl"
    job_facts.write_index(tasks, folder / _INDEX)
    of_tasks = [shape_of(spec) for spec in job_facts.read_specs(tasks)]
    wanted = plan.retry.only if plan.retry else range(len(of_tasks))
    shapes: dict[tuple[object, ...], list[int]] = {}
    for index in wanted:
        shape = of_tasks[index]
        key = (shape, index if alone and shape[0] > 1 else -1)
        shapes.setdefault(key, []).append(index)
    parts = []
    for position, indices in enumerate(shapes.values()):
        nodes, width, gpus, cores = of_tasks[indices[0]]
        part = Part("tasks", position, Numbers(indices), nodes, width, gpus=gpus, cores=cores)
        parts.append(part)
    if (folder / "finally.jsonl").exists():
        _, _, gpus, cores = shape_of(job_facts.read_spec(folder / "finally.jsonl"))
        last = Part("finally", len(parts), Numbers([len(of_tasks)]), 1, 1, gpus=gpus, cores=cores)
        parts.append(last)
    _queue(folder, parts, plan, number)
    return parts


def _queue(folder: Path, parts: list[Part], plan: RunPlan, number: int) -> None:
    """Says of the run, and of tasks that run again, that they are to come."""
    if number:
        for part in parts:
            for index in part.indices:
                task = part.task_folder(folder, index)
                if status := state_files.read_task(task):
                    state_files.write(task, status.again)
        if has_failed(folder):
            (folder / "setup" / "state.json").unlink()
    counts = {state: count for state, count in plan.done.items() if count}
    counts["queued"] = sum(len(part.indices) for part in parts)
    state_files.write(folder, RunState(tasks=counts, submission=number))
