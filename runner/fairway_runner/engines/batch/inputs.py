"""Inputs that other runs have kept: blobs beside those of the runs of this storage account, or
copies in it of what a run elsewhere has kept, named by what is in them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_agent.plan import Staged
from fairway_core.findings import UserError
from fairway_runner.engines.azure.storage import CODE, OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.refusals import gone_input
from fairway_runner.runs.kept import files_of
from fairway_runner.runs.records import read_plan
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.kept import KeptOutput

_PAUSE = 0.5
_PATIENCE = 120.0  # seconds for which a command that removes a run may be deleting


def staged(name: str, kept: KeptOutput, target: Target) -> Staged:
    """How the plan of a run on the target names what a task of another run has kept."""
    run = kept.run
    if _same_storage(submitted_to(run), target):
        folder = names.output_folder(run.id, run.task_name(kept.task), kept.output)
        return Staged(name, OUTPUTS, folder, "scratch")
    kept.bring()
    folder = names.chained_folder(kept.digest())
    return Staged(name, CODE, folder, "scratch", source=kept.path)


def bring(run: RunFolder, storage: Storage) -> None:
    """Copies what is not there yet of the run's inputs; Refused for one that is nowhere."""
    for each in read_plan(run.folder).staged:
        if each.source is not None:
            _bring(run, each, storage)
        elif each.container == OUTPUTS and next(storage.blobs(OUTPUTS, each.path), None) is None:
            raise gone_input(each.name, f"{each.container}:{each.path}")


def forget(run: RunFolder, storage: Storage) -> None:
    """The run is removed, and so are those of its copies that no other run has."""
    try:
        staged = read_plan(run.folder).staged
    except (UserError, FileNotFoundError):  # a run that is damaged is removed too
        return
    for each in staged:
        if each.source is not None and (digest := names.chained_digest(each.path)):
            _leave(run.id, digest, storage)


def forget_schedule(name: str, storage: Storage) -> None:
    """The same of a schedule, whose record is nowhere but there."""
    for blob in list(storage.blobs(CODE, names.CHAINED_USERS)):
        digest, _, user = blob.name.removeprefix(names.CHAINED_USERS).partition("/")
        if user == name:
            _leave(name, digest, storage)


def _leave(run: str, digest: str, storage: Storage) -> None:
    """One that an earlier release has copied has no users, and stays: nobody knows who reads it."""
    users, going = names.chained_users(digest), f"{names.chained_going(digest)}{run}"
    if not storage.delete(CODE, [f"{users}{run}"]):
        return
    # Said before it is looked who has it: one that comes after that look sees it, and waits.
    storage.upload(CODE, going, b"")
    try:
        if next(storage.blobs(CODE, users), None) is None:
            copies = [blob.name for blob in storage.blobs(CODE, names.chained_folder(digest))]
            storage.delete(CODE, copies)
    finally:
        storage.delete(CODE, [going])


def _wait_until_deleted(digest: str, storage: Storage) -> None:
    """Returns once nobody may be deleting it who has not seen that it is wanted."""
    going, end = names.chained_going(digest), time.monotonic() + _PATIENCE
    while left := [blob.name for blob in storage.blobs(CODE, going)]:
        if time.monotonic() > end:  # a command that was killed
            storage.delete(CODE, left)
            return
        time.sleep(_PAUSE)


def _bring(run: RunFolder, entry: Staged, storage: Storage) -> None:
    assert entry.source is not None, "it is copied from here"
    # First, so that removing another run with the same copy sees that it is still wanted.
    digest = names.chained_digest(entry.path)
    storage.upload(entry.container, f"{names.chained_users(digest)}{run.id}", b"")
    _wait_until_deleted(digest, storage)
    known = {blob.name: blob.size for blob in storage.blobs(entry.container, entry.path)}
    folder = run.folder.parents[1] / entry.source
    missing = {
        name: path
        for path in files_of(folder)
        if known.get(name := entry.path + path.relative_to(folder).as_posix())
        != path.stat().st_size
    }
    if not known and not missing:
        raise gone_input(entry.name, entry.source)

    def send(name: str) -> None:
        storage.upload_file(entry.container, name, missing[name])

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for done in [pool.submit(send, name) for name in missing]:
            done.result()


def _same_storage(one: Target, other: Target) -> bool:
    """Whether what the runs of both keep lies in the same account."""
    if one.batch is None or one.storage is None or other.storage is None:
        return False
    return (one.environment, one.storage.account_url) == (
        other.environment,
        other.storage.account_url,
    )
