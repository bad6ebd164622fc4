"""Inputs of runs that other runs have kept, as they lie on the shared folder: in the folder of the
other run, or where that ran elsewhere below `chained/`, named by what is in them."""

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
            adopt(shared / FOLDER, path.name, request.run, "the input")
        return InputsReport()
    try:
        (shared / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(shared, error) from None
    missing = [path for path in paths if not (shared / path).is_dir()]
    drafts = {str(path): str(shared / FOLDER / f".{path.name}.{request.run}") for path in missing}
    return InputsReport(drafts)


def forget(shared: Path, run: str) -> None:
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
