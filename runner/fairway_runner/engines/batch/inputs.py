"""Inputs that other runs have kept: blobs beside those of the runs of this storage account, or
copies in it of what a run elsewhere has kept, named by what is in them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_agent.plan import Staged
from fairway_core.findings import UserError
from fairway_runner.engines.azure.storage import CODE, OUTPUTS
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.refusals import gone_input
from fairway_runner.runs.kept import files_of
from fairway_runner.runs.plans import read_plan
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.kept import KeptOutput


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
        digest = names.chained_digest(each.path) if each.source is not None else ""
        users = names.chained_users(digest)
        # One that an earlier release has copied has no users: nobody knows who reads it.
        if not digest or not storage.delete(each.container, [f"{users}{run.id}"]):
            continue
        if next(storage.blobs(each.container, users), None) is None:
            copies = [blob.name for blob in storage.blobs(each.container, each.path)]
            storage.delete(each.container, copies)


def _bring(run: RunFolder, entry: Staged, storage: Storage) -> None:
    assert entry.source is not None, "it is copied from here"
    # First, so that removing another run with the same copy sees that it is still wanted.
    users = names.chained_users(names.chained_digest(entry.path))
    storage.upload(entry.container, f"{users}{run.id}", b"")
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
