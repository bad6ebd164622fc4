"""Inputs of runs that other runs have kept, as they lie on the shared folder: in the folder of the
other run, or where that ran elsewhere below `chained/`, named by what is in them. Standard library
only."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fairway_agent.shared.reports import InputsReport, InputsRequest
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "chained"


REQUEST = InputsRequest


def answer(shared: Path, request: InputsRequest, _: object) -> InputsReport:
    """Says which are missing, or takes those over that were put there for the run."""
    paths = [PurePosixPath(path) for path in request.paths]
    if request.adopt:
        for path in paths:
            _adopt(shared, path.name, request.run)
        return InputsReport()
    try:
        (shared / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"nothing can be written to {shared}: {error.strerror}"
        hint = "it must be a folder that you may write to and that all nodes see"
        raise Fault("unwritable-folder", message, hint) from None
    missing = [path for path in paths if not (shared / path).is_dir()]
    drafts = {str(path): str(_draft(shared, path.name, request.run)) for path in missing}
    return InputsReport(drafts)


def forget(shared: Path, run: str) -> None:
    """The run is removed, and so are those of its inputs that no other run has."""
    everybody = shared / FOLDER / ".users"
    for users in list(everybody.iterdir()) if everybody.is_dir() else ():
        (users / run).unlink(missing_ok=True)
        for user in users.iterdir():
            if not (shared / "runs" / user.name).is_dir():
                user.unlink(missing_ok=True)  # it was taken back while it was submitted
        with suppress(OSError):  # others have it
            users.rmdir()
            shutil.rmtree(shared / FOLDER / users.name, ignore_errors=True)


def _adopt(shared: Path, name: str, run: str) -> None:
    users, folder = shared / FOLDER / ".users" / name, shared / FOLDER / name
    users.mkdir(parents=True, exist_ok=True)
    (users / run).touch()
    draft = _draft(shared, name, run)
    if not folder.is_dir():
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another submission of the same was faster
                hint = "submit it again: its copy has not arrived whole, or was removed"
                raise Fault("host-failed", f"the input is not at {folder}", hint) from None
    shutil.rmtree(draft, ignore_errors=True)


def _draft(shared: Path, name: str, run: str) -> Path:
    return shared / FOLDER / f".{name}.{run}"
