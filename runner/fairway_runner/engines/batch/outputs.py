"""What tasks have kept in storage, brought into the run's folder: many files at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.record import read_json, write_json
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.engine import no_progress
from fairway_runner.runs.kept import expected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fairway_agent.task_state import TaskState
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.engine import Progress
    from fairway_runner.runs.folder import RunFolder

_FACTS = "outputs.json"
_FOLDER = "outputs/"


def collect(
    run: RunFolder, storage: Storage, tasks: Sequence[int], arrived: Progress = no_progress
) -> int:
    """Copies what is new, or has changed there or here; returns how many files that were."""
    known = read_json(run.folder / _FACTS)
    wanted: list[tuple[str, str, Path]] = []
    for name, etag, number in _kept(run, storage, tasks):
        prefix = names.task_folder(run.id, run.task_name(number))
        target = run.task_folder(number) / Path(name.removeprefix(prefix))
        if not target.resolve().is_relative_to((run.task_folder(number) / _FOLDER).resolve()):
            continue  # no task of ours names a file so
        if not target.exists() or known.get(name) != [etag, *_stamp(target)]:
            wanted.append((name, etag, target))

    def bring(name: str, etag: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name[:200]}.part")
        with draft.open("wb") as file:
            storage.write_to(OUTPUTS, name, file)
        draft.replace(target)
        known[name] = [etag, *_stamp(target)]

    try:
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            started = [pool.submit(bring, *each) for each in wanted]
            for count, done in enumerate(as_completed(started), start=1):
                done.result()
                arrived(count, len(wanted))
    finally:
        if wanted:
            write_json(run.folder / _FACTS, dict(known))
    return len(wanted)


def note_empty(
    run: RunFolder,
    storage: Storage,
    found: dict[int, TaskState],
    known: Callable[[RunFolder, int], TaskState | None],
) -> None:
    """Says of the tasks of an ended run which of their outputs are empty. Each is looked at once:
    somebody may remove the files later."""
    ended: dict[int, list[str]] = {}
    for number, output in expected(run):
        status = found.get(number)
        if status is None or status.state != "succeeded":
            continue
        before = known(run, number)
        if before is not None and before.ended == status.ended and before.empty_outputs is not None:
            found[number] = replace(status, empty_outputs=before.empty_outputs)
        else:
            ended.setdefault(number, []).append(output)
    if not ended:
        return
    there = {
        (number, name.removeprefix(names.task_folder(run.id, run.task_name(number))).split("/")[1])
        for name, _, number in _kept(run, storage, list(ended))
    }
    for number, wanted in ended.items():
        empty = tuple(each for each in wanted if (number, each) not in there)
        found[number] = replace(found[number], empty_outputs=empty)


def _stamp(path: Path) -> list[int]:
    """By which a change of the file is seen: a person may have fetched, and changed, this one."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _kept(run: RunFolder, storage: Storage, tasks: Sequence[int]) -> list[tuple[str, str, int]]:
    """Name, version and task of each file that these tasks have kept."""
    found = []
    wanted = set(tasks)
    # One list of all is quicker than one for each of many.
    prefixes = (
        [f"{names.task_folder(run.id, run.task_name(number))}{_FOLDER}" for number in tasks]
        if len(tasks) == 1
        else [f"{run.id}/"]
    )
    for prefix in prefixes:
        for blob in storage.blobs(OUTPUTS, prefix):
            task, _, rest = blob.name.removeprefix(f"{run.id}/").partition("/")
            number = run.index_of(task)
            if number is not None and number in wanted and rest.startswith(_FOLDER):
                found.append((blob.name, str(blob.etag), number))
    return found
