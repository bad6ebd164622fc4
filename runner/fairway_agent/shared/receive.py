"""Takes a run's files and says what of a submission is there. Standard library only."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import IO, TYPE_CHECKING

from fairway_agent import clone, run_files
from fairway_agent.shared.reports import ReceiveReport, ReceiveRequest
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = ReceiveRequest


def answer(shared: Path, request: ReceiveRequest, payload: IO[bytes]) -> ReceiveReport:
    """Makes the run's folder from the payload, a tar file, unless it is there."""
    run, code = request.run, request.code
    folder = shared / "runs" / run
    try:
        unpack(folder, payload)
        (shared / "code").mkdir(exist_ok=True)
    except OSError as error:
        message = f"nothing can be written to {shared}: {error.strerror}"
        hint = "it must be a folder that you may write to and that all nodes see"
        raise Fault("unwritable-folder", message, hint) from None
    return ReceiveReport(
        folder=str(folder),
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
            _renew_retry(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _renew_retry(draft: Path, folder: Path) -> None:
    """Takes over `retry.json`, unless that of a later retry is there."""
    new, known = run_files.read_retry(draft), run_files.read_retry(folder)
    if new is not None and new.submission > (known.submission if known else 0):
        (draft / "retry.json").replace(folder / "retry.json")


def adopt_code(shared: Path, code: str, run: str) -> Path:
    """The snapshot's folder, which a draft becomes that was copied for this run.

    It is kept for as long as a run has it; see `forget_code`.
    """
    target = shared / "code" / code
    users = _users(shared, code)
    users.mkdir(parents=True, exist_ok=True)
    (users / run).touch()
    draft = shared / "code" / f".{code}.{run}"
    if not target.is_dir():
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():  # else another submission of the same code was faster
                hint = "submit it again: its copy has not arrived whole, or was removed"
                raise Fault("host-failed", f"the code is not at {target}", hint) from None
    shutil.rmtree(draft, ignore_errors=True)
    return target


def copy_code(shared: Path, code: str, folder: Path) -> None:
    """Adopts the snapshot for the run of a folder, and gives the run a copy of its own there, in
    which the setup may build and tasks may write."""
    snapshot = adopt_code(shared, code, folder.name)
    draft = folder / ".code"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(snapshot, draft, symlinks=True, copy_function=clone.copy)
    draft.rename(folder / "code")


def forget_code(shared: Path, code: str, run: str) -> None:
    """The run is removed, and so is the snapshot where no other has it."""
    if not code:
        return  # of a run whose record is damaged
    users = _users(shared, code)
    (users / run).unlink(missing_ok=True)
    try:
        users.rmdir()
    except OSError:
        return  # others have it, or none ever had
    shutil.rmtree(shared / "code" / code, ignore_errors=True)


def _users(shared: Path, code: str) -> Path:
    return shared / "code" / ".users" / code
