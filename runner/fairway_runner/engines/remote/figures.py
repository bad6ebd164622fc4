"""What was sampled on the nodes of a run, copied from the shared folder as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import Unfit
from fairway_agent.figures import FOLDER
from fairway_agent.shared.reports import FiguresReport, FiguresRequest
from fairway_runner.engines.remote.logs import unpacked
from fairway_runner.runs.figures import is_node_name

if TYPE_CHECKING:
    from fairway_runner.engines.remote.remote_host import RemoteHost
    from fairway_runner.runs.folder import RunFolder


def bring_figures(run: RunFolder, remote: RemoteHost) -> None:
    """Adds what is new of each node's samples to its file in the run's folder.

    UserError where the host does not answer, or with what cannot be samples.
    """
    folder = run.folder / FOLDER
    folder.mkdir(exist_ok=True)
    with record.alone(run.folder / "figures.lock"):
        more = True
        while more:
            known = {file.stem: file.stat().st_size for file in folder.glob("*.jsonl")}
            request, added = FiguresRequest(run.id, known), 0
            answer = remote.call("fairway_agent.shared.samples", request, FiguresReport)
            if not all(map(is_node_name, answer.pieces)):
                raise remote.strange(Unfit("a node has an invalid name"))
            for node, piece in answer.pieces.items():
                if piece.offset == known.get(node, 0):
                    with (folder / f"{node}.jsonl").open("ab") as file:
                        added += file.write(unpacked(piece.data, run))
            more = answer.more and added > 0
