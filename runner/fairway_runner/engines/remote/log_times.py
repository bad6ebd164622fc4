"""When the logs of a run had which size, copied from the shared folder as the notes grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import Unfit
from fairway_agent.log_times import FILE
from fairway_agent.shared.reports import LOG_TIMES, PiecesReport, PiecesRequest
from fairway_runner.engines.remote.logs import unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_runner.engines.remote.remote_host import RemoteHost
    from fairway_runner.runs.folder import RunFolder


def bring_log_times(run: RunFolder, remote: RemoteHost, logs: Sequence[Path]) -> None:
    """Adds what is new of the note of each of these logs to the one beside it.

    UserError where the host does not answer, or with what cannot be such notes.
    """
    notes = {log.parent.name: log.with_name(FILE) for log in logs}
    with record.alone(run.folder / "log-times.lock"):
        more = True
        while more:
            known = {name: _size(note) for name, note in notes.items()}
            request, added = PiecesRequest(run.id, LOG_TIMES, known), 0
            answer = remote.call("fairway_agent.shared.growing_files", request, PiecesReport)
            if not set(answer.pieces) <= set(notes):
                raise remote.strange(Unfit("nobody asked for one of the tasks"))
            for name, piece in answer.pieces.items():
                if piece.offset == known[name]:
                    notes[name].parent.mkdir(parents=True, exist_ok=True)
                    with notes[name].open("ab") as file:
                        added += file.write(unpacked(piece.data, run))
            more = answer.more and added > 0


def _size(note: Path) -> int:
    return note.stat().st_size if note.exists() else 0
