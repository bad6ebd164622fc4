"""What was sampled on the nodes of a run, copied from the shared folder as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent import record
from fairway_agent.fields import Unfit
from fairway_agent.figures.sampler import FOLDER
from fairway_agent.shared.pieces import Piece
from fairway_core.findings import UserError
from fairway_runner.engines.remote.logs import unpacked
from fairway_runner.runs.figures import is_node_name
from fairway_runner.runs.shapes import STRANGE, mapping

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
            answer = remote.call("fairway_agent.shared.figures", {"run": run.id, "known": known})
            pieces = _checked(answer, remote.connection.name)
            added = 0
            for node, piece in pieces.items():
                if piece.offset == known.get(node, 0):
                    with (folder / f"{node}.jsonl").open("ab") as file:
                        added += file.write(unpacked(piece.data, run))
            more = bool(answer.get("more")) and added > 0


def _checked(answer: Any, host: str) -> dict[str, Piece]:
    """The pieces by node; UserError for anything else."""
    try:
        pieces = mapping(mapping(answer, "answer").get("nodes"), "nodes")
        if not all(map(is_node_name, pieces)):
            raise Unfit("a node has another name than nodes have")
        return {node: Piece.from_json(piece) for node, piece in pieces.items()}
    except Unfit as error:
        message = f"{host} sent what cannot be samples of nodes: {error}"
        raise UserError.of("host-failed", message, STRANGE, exit_code=5) from None
