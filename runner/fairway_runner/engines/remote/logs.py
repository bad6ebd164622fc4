"""The logs of a run's tasks, copied as they grow; a piece is added where the last one ended."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

from fairway_agent.shared.pieces import MOST
from fairway_core.findings import UserError
from fairway_runner.engines.remote.answers import STRANGE
from fairway_runner.runs.records import known_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fairway_agent.shared.pieces import Piece
    from fairway_runner.runs.folder import RunFolder


def known_logs(run: RunFolder, *, final: bool) -> dict[str, int]:
    """For each log of which more may come, how many bytes of it are here."""
    known = {}
    for name, folder in _folders(run):
        log = folder / "log.txt"
        size = log.stat().st_size if log.exists() else 0
        state = known_task(folder)
        whole = None if state is None else state.log_size
        if (whole is None and not final) or (whole is not None and size < whole):
            known[name] = size
    return known


def add_logs(run: RunFolder, pieces: Mapping[str, Piece]) -> None:
    """Writes pieces to the ends of the logs, each without what another command wrote meanwhile.

    The caller sees to it that nobody else adds anything meanwhile.
    """
    folders = dict(_folders(run))
    for name, piece in pieces.items():
        folder, data = folders[name], unpacked(piece.data, run)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("ab") as log:
            known = log.tell() - piece.offset
            if known >= 0:
                log.write(data[known:])


def unpacked(data: str, run: RunFolder) -> bytes:
    """A piece's bytes, of that run; what is more than a host may send at once is left out."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(data), MOST)
    except (ValueError, zlib.error):
        message = f"the host of `{run.record.target}` sent a piece of a file that cannot be read"
        raise UserError.of("host-failed", message, STRANGE, exit_code=5) from None


def _folders(run: RunFolder) -> Iterator[tuple[str, Path]]:
    if (run.folder / "setup.jsonl").exists():
        yield "setup", run.folder / "setup"
    for index in range(run.record.tasks):
        yield run.task_name(index), run.task_folder(index)
