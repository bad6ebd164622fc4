"""Removes runs that have ended, and the code that no run is left to use."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairway_agent.records import OTHER_RELEASE
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.outage import brief
from fairway_runner.runs.records import FINAL_STATES, legible_facts, recorded_steps
from fairway_runner.runs.store import Run, RunStore, refresh_all
from fairway_runner.runs.view import input_facts
from fairway_runner.submit import snapshot as code

DAMAGED = "damaged"
_DAMAGED_RUN, _NOT_REMOVED = "damaged-run", "not-removed"

_DRAFT_AGE = 86_400.0  # seconds, longer than to create, read or remove a run takes


@dataclass(frozen=True)
class Removed:
    """The runs and snapshots removed, their size in bytes, and why some runs could not be."""

    runs: tuple[str, ...]
    snapshots: int
    size: int
    kept: tuple[Finding, ...] = ()


def removable(
    store: RunStore,
    names: Sequence[str] = (),
    older_than: float | None = None,
    states: Collection[str] = (),
) -> list[Run]:
    """Returns the ended runs that meet all given conditions; without names, of all runs.
    `older_than` is in seconds since their end. Raises UserError for a named run that has not
    ended."""
    runs = [store.find(name) for name in names] if names else list(store.unsorted())
    now = time.time()
    chosen = []
    refresh_all(runs, patience=brief())
    for run in {run.id: run for run in runs}.values():
        try:
            state, ended = _end_of(run)
        except (FileNotFoundError, UserError):
            if names:
                raise
            continue  # another command has just removed it, or it is of another release
        if state not in FINAL_STATES and state != DAMAGED:
            if names:
                hint = f"end it first: fairway cancel {run.id}"
                raise UserError.of("running-run", f"{run.id} has not ended: {state}", hint)
            continue
        if (not states or state in states) and (older_than is None or now - ended >= older_than):
            chosen.append(run)
    return sorted(_unread(store, chosen, is_named=bool(names)), key=lambda run: run.id)


def _unread(store: RunStore, chosen: Sequence[Run], *, is_named: bool) -> list[Run]:
    """Returns the runs that no active run needs. Raises UserError for a named one that it needs."""
    readers: dict[str, str] = {}
    for run in store.unsorted() if chosen else ():
        wanted = [str(each["run"]) for each in input_facts(run).values()]
        with suppress(UserError):
            wanted += [each.run for each in recorded_steps(run.folder)]
        with suppress(FileNotFoundError):
            if wanted and _may_go_on(run):
                readers |= dict.fromkeys(wanted, run.id)
    for run in chosen:
        if is_named and (reader := readers.get(run.id)):
            message = f"{reader}, which has not ended, needs outputs of {run.id}"
            hint = f"wait for it (fairway wait {reader}) or end it (fairway cancel {reader})"
            raise UserError.of("running-run", message, hint)
    return [run for run in chosen if run.id not in readers]


def _may_go_on(run: Run) -> bool:
    try:
        return _end_of(run)[0] not in (*FINAL_STATES, DAMAGED)
    except UserError:
        return True


def _end_of(run: Run) -> tuple[str, float]:
    """Returns the run's state, and when it ended or else was created; of a damaged one, when its
    folder was last written to. Raises UserError for a run of another release: it may be active."""
    try:
        created, status = run.record.created, run.status
        return status.state, status.ended or created
    except (UserError, OSError) as error:
        if isinstance(error, UserError) and error.findings[0].id == OTHER_RELEASE:
            raise
        return DAMAGED, run.folder.stat().st_mtime


def remove(store: RunStore, runs: Iterable[Run]) -> Removed:
    """Removes the runs' folders, remains of incomplete runs, and then the snapshots of code that no
    run uses. A run that was started again meanwhile is left alone. Raises UserError if a target is
    away."""
    removed, size = [], 0
    kept: list[Finding] = []
    for run in runs:
        try:
            lock = run.take_lock()
        except FileNotFoundError:
            continue  # another command has just removed it
        except UserError as error:
            if error.findings[0].id != _DAMAGED_RUN:
                continue
            lock = None
        try:
            size += _remove(run)
            removed.append(run.id)
        except UserError as error:
            if error.findings[0].id not in (_DAMAGED_RUN, _NOT_REMOVED):
                raise  # its target is unavailable: its other runs would fail alike
            kept += error.findings
        finally:
            if lock is not None:
                os.close(lock)
    # Left by killed commands that were creating, reading or removing runs.
    for folder in store.folder.glob(".*"):
        with suppress(OSError):  # another command is removing it, too
            if time.time() - folder.lstat().st_mtime > _DRAFT_AGE and folder.is_dir():
                size += _size(folder)
                shutil.rmtree(folder, ignore_errors=True)
    snapshots, more = _remove_snapshots(store)
    return Removed(tuple(removed), snapshots, size + more, tuple(kept))


def _remove(run: Run) -> int:
    """Removes a run from its target and from here; returns the size of its files in bytes."""
    try:
        if not run.is_unsent:
            run.engine.remove(run)
        size = _size(run.folder)
        # Renamed first, so that nobody finds a run with only some of its files.
        gone = run.folder.with_name(f".{run.id}.removed")
        run.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    except OSError as error:
        message = f"{run.folder} cannot be removed: {error.strerror}"
        raise UserError.of(_NOT_REMOVED, message, f"see who owns it: ls -ld {run.folder}") from None
    return size


def _remove_snapshots(store: RunStore) -> tuple[int, int]:
    folder = store.base / "code"
    if not folder.is_dir():
        return 0, 0
    count = size = 0
    with code.keep_snapshots(folder, alone=True):
        used = set()
        for run in store.unsorted():
            digest = legible_facts(run.folder / "provenance.json").get("code")
            used |= {code.stored(digest, folder)} if isinstance(digest, str) else set()
        for snapshot in folder.iterdir():
            if snapshot.is_dir() and snapshot not in used:
                size += _size(snapshot)
                shutil.rmtree(snapshot, ignore_errors=True)
                count += 1
    return count, size


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(Path(parent, name)).st_size
    return total
