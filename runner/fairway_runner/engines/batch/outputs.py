"""Outputs of runs in storage: downloaded into the run's folder, or used as inputs of other runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from fairway_agent.outputs import draft_of, make_folder
from fairway_agent.spec import Staged
from fairway_boot.files import read_json, write_json
from fairway_runner.engines.azure_storage import CODE, OUTPUTS, Storage
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.engine import Progress, no_progress
from fairway_runner.engines.outage import gone_input
from fairway_runner.runs.output_files import expected, files_of, leads_out
from fairway_runner.runs.records import read_plan
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

    from fairway_agent.state_files import TaskState
    from fairway_core.target import Target
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.output_files import RunOutput

_FACTS = "outputs.json"
_FOLDER = "outputs/"


def collect(
    run: RunFolder, storage: Storage, tasks: Sequence[int], arrived: Progress = no_progress
) -> None:
    """Downloads new files, and those that have changed there or here, in place of what an earlier
    attempt has kept under their names."""
    known = read_json(run.folder / _FACTS)
    wanted: list[tuple[str, str, Path]] = []
    for name, etag, number in _kept(run, storage, tasks):
        prefix = client.task_folder(run.id, run.task_name(number))
        target = run.task_folder(number) / Path(name.removeprefix(prefix))
        if leads_out(target, run.task_folder(number) / _FOLDER):
            continue  # no task of ours would write such a name
        if not target.exists() or known.get(name) != [etag, *_stamp(target)]:
            wanted.append((name, etag, target))
            make_folder(run.task_folder(number), target.parent)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)

    def bring(name: str, etag: str, target: Path) -> None:
        draft = draft_of(target, ".part")
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


def note_empty(run: RunFolder, storage: Storage, found: dict[int, TaskState]) -> None:
    """Records once which outputs of an ended run are empty: somebody may remove the files later."""
    ended: dict[int, list[str]] = {}
    for number, output in expected(run):
        status = found.get(number)
        if status is not None and status.state == "succeeded" and status.empty_outputs is None:
            ended.setdefault(number, []).append(output)
    if not ended:
        return
    there = {
        (number, name.removeprefix(client.task_folder(run.id, run.task_name(number))).split("/")[1])
        for name, _, number in _kept(run, storage, list(ended))
    }
    for number, wanted in ended.items():
        empty = tuple(each for each in wanted if (number, each) not in there)
        found[number] = replace(found[number], empty_outputs=empty)


def _stamp(path: Path) -> list[int]:
    """Returns a stamp that changes with the file: the user may have changed the fetched copy."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _kept(run: RunFolder, storage: Storage, tasks: Sequence[int]) -> list[tuple[str, str, int]]:
    """Returns name, version and task of each file that these tasks have kept."""
    found = []
    wanted = set(tasks)
    # One list of everything is faster than one list per task.
    prefix = f"{run.id}/"
    if len(tasks) == 1:
        prefix = f"{client.task_folder(run.id, run.task_name(tasks[0]))}{_FOLDER}"
    blobs = {blob.name: blob for blob in storage.blobs(OUTPUTS, prefix)} if tasks else {}
    replaced = _replaced(blobs)
    for name in blobs:
        task, _, rest = name.removeprefix(f"{run.id}/").partition("/")
        number = run.index_of(task)
        is_output = number in wanted and rest.startswith(_FOLDER) and name not in replaced
        if number is not None and is_output:
            found.append((name, str(blobs[name].etag), number))
    return found


def _replaced(blobs: Mapping[str, BlobProperties]) -> set[str]:
    """Returns the names of files in whose place a later attempt has kept a folder, and of files in
    a folder in whose place one has kept a file."""
    found = set()
    for name, blob in blobs.items():
        for above in map(str, PurePosixPath(name).parents):
            if above in blobs:
                is_older = blobs[above].last_modified < blob.last_modified
                found.add(above if is_older else name)
    return found


def staged_input(run_id: str, name: str, kept: RunOutput, target: Target) -> Staged:
    """Returns the entry in a run's plan for an output that a task of another run has kept."""
    run = kept.run
    accounts = [
        each.batch and each.storage and (each.environment, each.storage.account_url)
        for each in (submitted_to(run), target)
    ]
    if accounts[0] and accounts[0] == accounts[1]:
        folder = f"{client.task_folder(run.id, run.task_name(kept.task))}{_FOLDER}{kept.output}/"
        return Staged(name, OUTPUTS, folder, "scratch")
    kept.bring()
    folder = f"{client.private_folder(run_id)}inputs/{name}/"
    return Staged(name, CODE, folder, "scratch", source=kept.path)


def missing_inputs(run: RunFolder, storage: Storage) -> dict[str, Path]:
    """Returns the files to upload for the run's inputs, by their names in storage. Raises
    RunRefused for an input that exists nowhere."""
    missing: dict[str, Path] = {}
    for each in read_plan(run.folder).staged:
        if each.source is None:
            if each.container == OUTPUTS and next(storage.blobs(OUTPUTS, each.path), None) is None:
                raise gone_input(each.name, f"{each.container}:{each.path}")
            continue
        folder = run.folder.parents[1] / each.source
        known = {blob.name: blob.size for blob in storage.blobs(CODE, each.path)}
        there = {f"{each.path}{file.relative_to(folder)}": file for file in files_of(folder)}
        if not known and not there:
            raise gone_input(each.name, each.source)
        missing |= {name: f for name, f in there.items() if known.get(name) != f.stat().st_size}
    return missing


def upload_inputs(missing: Mapping[str, Path], storage: Storage) -> None:
    """Uploads these files of inputs."""
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(storage.upload, repeat(CODE), missing.keys(), missing.values()))


def delete_stored(run: str, storage: Storage) -> None:
    """Deletes the key and the copied inputs of a run or a schedule, its record, and its outputs."""
    for container, prefix in ((CODE, client.private_folder(run)), (OUTPUTS, f"{run}/")):
        storage.delete(container, [blob.name for blob in storage.blobs(container, prefix)])
