"""Runs in the shared folder: receiving their files, code and inputs, and reporting their states.

Inputs that other runs have kept lie in the folder of the other run, or, if that ran elsewhere,
below `run-inputs/`, named by their content.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from fairway_agent import control, job_facts, state_files
from fairway_agent.control import Numbers, Part
from fairway_agent.prepare import has_failed
from fairway_agent.records import UnreadableFile
from fairway_agent.resources import ResourceRequest
from fairway_agent.shared import reports as messages
from fairway_agent.spec import FIGURES, LAST, RECORD
from fairway_agent.state_files import RunState
from fairway_boot.files import NO_ANSWER, AgentError, copy_file, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fairway_agent.control import Control
    from fairway_agent.spec import TaskSpec

    Shape = tuple[int, int, int | None, int | None]

RUN_INPUTS = "run-inputs"


def inputs(shared: Path, request: messages.InputsRequest, _: object) -> messages.InputsReport:
    """Returns the missing inputs, or adopts those that were uploaded for the run."""
    paths = [PurePosixPath(path) for path in request.paths]
    if request.adopt:
        for path in paths:
            adopt(shared / RUN_INPUTS, path.name, request.run, "the input")
        return messages.InputsReport()
    try:
        (shared / RUN_INPUTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(shared, error) from None
    missing = [path for path in paths if not (shared / path).is_dir()]
    drafts = {
        str(path): str(shared / RUN_INPUTS / f".{path.name}.{request.run}") for path in missing
    }
    return messages.InputsReport(drafts)


def forget_inputs(shared: Path, run: str) -> None:
    """Removes the inputs of a removed run that no other run uses."""
    everybody = shared / RUN_INPUTS / ".users"
    for users in list(everybody.iterdir()) if everybody.is_dir() else ():
        give_up(shared / RUN_INPUTS, users.name, run)


def give_up(base: Path, name: str, run: str) -> None:
    """Ends a run's use of that folder below `base`; the last run to use it removes the folder."""
    users = base / ".users" / name
    (users / run).unlink(missing_ok=True)
    with suppress(OSError):  # other runs use it, or none ever did
        for user in list(users.iterdir()):
            if not (base.parent / "runs" / user.name).is_dir():
                user.unlink(missing_ok=True)  # it was withdrawn while it was submitted
        users.rmdir()
        shutil.rmtree(base / name, ignore_errors=True)


def adopt(base: Path, name: str, run: str, what: str) -> Path:
    """Moves the draft to the folder of that name below `base`, which is kept while runs use it, and
    returns the folder. Raises AgentError if there is neither."""
    folder, draft, users = base / name, base / f".{name}.{run}", base / ".users" / name
    users.mkdir(parents=True, exist_ok=True)
    (users / run).touch()
    if not folder.is_dir():
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise a parallel submission was faster
                hint = "submit it again: its copy has not arrived whole, or was removed"
                raise AgentError("host-failed", f"{what} is not at {folder}", hint) from None
    shutil.rmtree(draft, ignore_errors=True)
    return folder


def unwritable(shared: Path, error: OSError) -> AgentError:
    """Returns the fault of a shared folder that is not writable."""
    message = f"nothing can be written to {shared}: {error.strerror}"
    hint = "it must be a folder that you may write to and that all nodes see"
    return AgentError("unwritable-folder", message, hint)


def receive(
    shared: Path, request: messages.ReceiveRequest, payload: IO[bytes]
) -> messages.ReceiveReport:
    """Creates the run's folder from the payload, a tar file, unless it exists. Raises AgentError if
    another run has its id."""
    run, code = request.run, request.code
    folder = shared / "runs" / run
    try:
        draft = folder.with_name(f".{folder.name}.{os.getpid()}.{os.uname().nodename}")
        draft.mkdir(parents=True)
        import tarfile  # queries about runs unpack nothing

        try:
            with tarfile.open(fileobj=payload, mode="r|gz") as files:
                for member in files:
                    # Written and named by a CLI of the same user: only plain files are accepted.
                    if member.isfile() and "/" not in member.name:
                        content = files.extractfile(member)
                        assert content is not None, "a plain file has content"
                        (draft / member.name).write_bytes(content.read())
            try:
                draft.rename(folder)
            except OSError:
                if not (folder / "plan.json").is_file():
                    raise
                if is_another(folder, _created(draft)):
                    message = f"{shared} has another run `{run}`"
                    hint = "choose another ID"
                    raise AgentError("taken-run-id", message, hint, exit_code=2) from None
                # Takes over the retry's orders, unless those of a later one exist.
                new, known = job_facts.read_retry(draft), job_facts.read_retry(folder)
                if new is not None and new.submission > (known.submission if known else 0):
                    (draft / "retry.json").replace(folder / "retry.json")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        (shared / "code").mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(shared, error) from None
    return messages.ReceiveReport(
        draft=str(shared / "code" / f".{code}.{run}"), has_code=(shared / "code" / code).is_dir()
    )


def _created(folder: Path) -> object:
    return facts_of(folder / "run.json").get("created")


def is_another(folder: Path, created: object) -> bool:
    """Returns True if a folder has a run that was not created then: another one of that id."""
    return created is not None and _created(folder) not in (None, created)


def copy_code(shared: Path, code: str, folder: Path) -> None:
    """Adopts the snapshot, and gives a run without one a copy, in which setup and tasks write."""
    if (folder / "code").is_dir():
        return
    snapshot = adopt(shared / "code", code, folder.name, "the code")
    draft = folder / ".code"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(snapshot, draft, symlinks=True, copy_function=copy_file)
    draft.rename(folder / "code")


def remove(folder: Path) -> None:
    """Removes a run, even a partial one, with its code and inputs unless others use them."""
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
    """Returns a file's mapping; an empty one if it cannot be read."""
    try:
        value: object = read_json(path)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_INDEX = "tasks.offsets"


def forget(folder: Path, submission: int, why: object) -> None:
    """Forgets a submission that the scheduler does not have; removes a run that has no other, and
    ends a retry, which others would see queued for ever."""
    control.change(folder, submission, parts=(), complete=False)
    if submission == 0:
        remove(folder)
        return
    known = RunState(submission=submission)
    with suppress(UnreadableFile):
        known = state_files.read_run(folder) or known
    counts = Counter(known.tasks)
    counts["cancelled"] += counts.pop("queued", 0)
    reason = f"the retry was refused: {why}"
    new = replace(known, state="failed", reason=reason, ended=time.time(), tasks=+counts)
    state_files.write(folder, new)


def require_uncancelled(folder: Path, known: Control) -> None:
    """Raises AgentError for a submission that somebody has cancelled, which may have ended
    since."""
    if known.is_cancelled:
        text = f"{folder.name} was cancelled before it was submitted completely"
        raise AgentError("cancelled-run", text, f"run it again: fairway retry {folder.name}", 2)


def stuck(folder: Path, fault: AgentError) -> AgentError:
    """Returns the fault of a submission that cannot be completed, and of which a job may have run:
    its results stay."""
    text = f"a part of {folder.name} was submitted earlier, and the rest cannot be: {fault}"
    hint = f"{fault.record['hint']}\n" if fault.record["hint"] else ""
    hint += f"once that is fixed: fairway submit --resume {folder.name}\n"
    hint += f"or end the run: fairway cancel {folder.name}"
    return AgentError("cut-off-submission", text, hint, 2)


def shape_of(spec: TaskSpec) -> Shape:
    """Returns the shape of a task, which all elements of an array share: its nodes, its processes
    on each, and its GPUs and cores if it takes a part of one."""
    wanted = spec.wanted or ResourceRequest()
    return spec.nodes, spec.processes_per_node, wanted.gpus, wanted.cores


def spec_of(folder: Path, stage: str, index: int) -> TaskSpec:
    """Returns a task's own line of the plan."""
    path = folder / f"{stage}.jsonl"
    if stage == "tasks":
        return job_facts.read_indexed(path, folder / _INDEX, index)
    return job_facts.read_spec(path)


def prepare_parts(
    shared: Path, folder: Path, number: int, code: str, *, alone: bool = False
) -> list[Part]:
    """Prepares the run's folder for the submission of that number, with the snapshot `code`, and
    returns its parts, each of one shape; with `alone` each task of several nodes is a part."""
    copy_code(shared, code, folder)
    plan = job_facts.read_shared_plan(folder, retry=number > 0)
    tasks = folder / "tasks.jsonl"
    job_facts.write_index(tasks, folder / _INDEX)
    of_tasks = [shape_of(spec) for spec in job_facts.read_specs(tasks)]
    wanted = plan.retry.only if plan.retry else range(len(of_tasks))
    shapes: dict[tuple[object, ...], list[int]] = {}
    for index in wanted:
        shape = of_tasks[index]
        shapes.setdefault((shape, index if alone and shape[0] > 1 else -1), []).append(index)
    parts = []
    for position, indices in enumerate(shapes.values()):
        nodes, width, gpus, cores = of_tasks[indices[0]]
        part = Part("tasks", position, Numbers(indices), nodes, width, gpus=gpus, cores=cores)
        parts.append(part)
    if (folder / "finally.jsonl").exists():
        _, _, gpus, cores = shape_of(job_facts.read_spec(folder / "finally.jsonl"))
        last = Part("finally", len(parts), Numbers([len(of_tasks)]), 1, 1, gpus=gpus, cores=cores)
        parts.append(last)
    # Tasks that run again, and the run, are queued now.
    for task in (part.task_folder(folder, i) for part in parts for i in part.indices if number):
        if status := state_files.read_task(task):
            state_files.write(task, status.again)
    if number and has_failed(folder):
        (folder / "setup" / "state.json").unlink()
    counts = {state: count for state, count in plan.done.items() if count}
    counts["queued"] = sum(len(part.indices) for part in parts)
    state_files.write(folder, RunState(tasks=counts, submission=number))
    return parts


def runs(shared: Path, request: messages.RunsRequest, _: object) -> messages.RunsReport:
    """Removes a run, or lists those of a target."""
    if request.remove is not None:
        if not is_another(folder := shared / "runs" / request.remove, request.created):
            remove(folder)
        return messages.RunsReport({}, {})
    known = set(request.known)
    found, submissions = {}, {}
    base = shared / "runs"
    for folder in sorted(base.iterdir()) if base.is_dir() else ():
        if folder.name.startswith(".") or folder.name in known:
            continue
        if facts_of(folder / "run.json").get("target") == request.target:
            number = facts_of(folder / "state.json").get("submission")
            submissions[folder.name] = number if type(number) is int and number >= 0 else 0
            found[folder.name] = {
                name: (folder / name).read_text(encoding="utf-8", errors="replace")
                for name in RECORD  # other files are sent on request
                if (folder / name).is_file()
            }
    return messages.RunsReport(found, submissions)


_SOME = b"x" * 4096  # over its quota, a folder still accepts empty files


def write_fault(folder: Path) -> str:
    """Returns why nothing can be written to a folder; "" if it is writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_SOME)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def health(shared: Path, **more: Any) -> messages.Health:
    """Returns the health of a target: of its shared folder, and `more` of its own kind."""
    fault, free = write_fault(shared), 0
    for folder in (shared, *shared.parents):  # or of the nearest accessible parent
        with suppress(OSError):
            free = shutil.disk_usage(folder).free
            break
    return messages.Health(free, time.time(), fault, **more)


def cancel(
    shared: Path,
    request: messages.CancelRequest,
    end_run: Callable[[Path, messages.CancelRequest], None],
    end_task: Callable[[Path, messages.CancelRequest], None],
) -> messages.Done:
    """Ends a submission, or one of its tasks, unless the run's folder is gone or another run's.
    Without its plan, as when tasks write there after its removal, only the run can be ended."""
    folder = shared / "runs" / request.run
    if is_another(folder, request.created):
        return messages.Done()
    if not request.task and folder.is_dir():
        end_run(folder, request)
    elif request.task and (folder / "plan.json").is_file():
        end_task(folder, request)
    return messages.Done()


def states(shared: Path, request: messages.StatesRequest, _: object) -> messages.StatesReport:
    return messages.StatesReport(reports(shared, request.runs))


def reconciled(
    shared: Path,
    request: messages.StatesRequest,
    reconcile_all: Callable[[list[Path]], dict[str, UnreadableFile]],
) -> messages.StatesReport:
    """Returns the states of the runs, after asking the scheduler, which also reports damaged runs.
    If it does not answer, the states are the last known ones, and `silent` says so."""
    silent, damaged = "", dict[str, UnreadableFile]()
    try:
        damaged = reconcile_all([shared / "runs" / run for run in request.runs])
    except AgentError as fault:
        if fault.record["id"] != NO_ANSWER:
            raise
        silent = str(fault)
    found = reports(shared, request.runs)
    for run, error in damaged.items():
        found[run] = messages.RunReport(None, damaged=error.finding)
    return messages.StatesReport(found, silent)


def reports(
    shared: Path, runs: Mapping[str, messages.RunRequest]
) -> dict[str, messages.RunReport | None]:
    """Reports on each requested run; None for one without a folder."""
    budget, found = [messages.MOST], dict[str, messages.RunReport | None]()
    for run, asked in runs.items():
        try:
            found[run] = _report(shared / "runs" / run, asked, budget)
        except UnreadableFile as fault:
            found[run] = messages.RunReport(None, damaged=fault.finding)
    return found


def _report(folder: Path, asked: messages.RunRequest, room: list[int]) -> messages.RunReport | None:
    # The run's own state first: if it is final, so is everything read afterwards.
    state = state_files.read_run(folder)
    if state is None and not (folder / "plan.json").is_file():
        return None
    if is_another(folder, asked.created):
        return None
    done = set(asked.done)
    known: list[str] = []
    with suppress(FileNotFoundError):  # the run may be removed meanwhile
        known = [each.name for each in (folder / "tasks").iterdir()]
    # Tasks with a folder: by their numbers, and then the last one.
    names = [*sorted(filter(str.isdecimal, known), key=int), *(n for n in known if n == LAST)]
    tasks = {}
    for name in ("setup", *names):
        place = _folder(folder, name)
        if name in done or (status := state_files.read_task(place)) is None:
            continue
        if status.is_final:
            log = place / "log.txt"
            status = replace(status, log_size=log.stat().st_size if log.exists() else 0)
        tasks[name] = status
    files = ((name, _folder(folder, name) / "log.txt") for name in asked.logs)
    logs, more = messages.pieces_of(files, asked.logs, room)
    if asked.samples is None:
        return messages.RunReport(state, tasks, logs, more=more)
    files = ((each.stem, each) for each in sorted((folder / FIGURES).glob("*.jsonl")))
    samples, more_samples = messages.pieces_of(files, asked.samples, room)
    return messages.RunReport(state, tasks, logs, samples, more or more_samples)


def _folder(folder: Path, name: str) -> Path:
    return folder / "setup" if name == "setup" else folder / "tasks" / name
