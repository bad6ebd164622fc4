"""Runs that were submitted from elsewhere, read from nothing but the account."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names, states
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.generations import note_later, write_history
from fairway_runner.engines.batch.submission import RECORD, metadata_of
from fairway_runner.runs.records import read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolders


def adopt(store: RunFolders, account: Account, storage: Storage) -> None:
    """Makes a folder for each run of the account's pool that the store does not know, and notes
    where one that it knows was retried from elsewhere."""
    known = {run.id: run for run in store.unsorted()}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for job in account.jobs():
        facts = metadata_of(job)
        run = (
            names.scheduled_run(str(job["id"])) if names.SCHEDULE in facts else facts.get(names.RUN)
        )
        if not run or states.is_going(job):
            continue
        found.setdefault(run, []).append(job)
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        each = [
            pool.submit(note_later, known[run], account, jobs)
            if run in known
            else pool.submit(_adopt, run, jobs, store, storage, account)
            for run, jobs in found.items()
        ]
        for done in each:
            done.result()


def _adopt(
    run: str,
    jobs: Sequence[Mapping[str, Any]],
    store: RunFolders,
    storage: Storage,
    account: Account,
) -> None:
    job = jobs[0]
    submitted = metadata_of(job)[names.RUN]
    try:
        record = storage.read(OUTPUTS, names.record_blob(submitted))
    except ServiceError as error:
        if error.is_missing:  # it was cleaned, or is being submitted just now
            return
        raise
    store.folder.mkdir(parents=True, exist_ok=True)
    draft = store.folder / f".{run}.{os.getpid()}"
    draft.mkdir()
    try:
        with tarfile.open(fileobj=io.BytesIO(record), mode="r:gz") as archive:
            for entry in archive:
                # A record holds these plain files and nothing else, no matter who wrote it.
                source = archive.extractfile(entry) if entry.name in RECORD else None
                if source is not None:
                    (draft / entry.name).write_bytes(source.read())
        if run != submitted:
            _rename(draft, run, job)
        write_history(draft, account, jobs)
        (draft / "state.json").write_text(json.dumps({"state": "queued"}), encoding="ascii")
        (draft / "lock").write_text("", encoding="ascii")
        with contextlib.suppress(OSError):  # somebody else has adopted it meanwhile
            draft.rename(store.folder / run)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename(folder: Path, run: str, job: Mapping[str, Any]) -> None:
    """Makes the record of a schedule that of one of its runs."""
    facts = json.loads((folder / "run.json").read_bytes())
    facts |= {"id": run, "created": states.seconds(job.get("creationTime")) or facts["created"]}
    (folder / "run.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    plan = replace(read_plan(folder), run=run)
    (folder / "plan.json").write_text(plan.text(), encoding="utf-8")
