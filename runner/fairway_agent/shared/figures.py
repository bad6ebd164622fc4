"""What was sampled on the nodes of a run, for those who watch it. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from fairway_agent.figures.sampler import FOLDER
from fairway_agent.shared.pieces import MOST, piece_of

if TYPE_CHECKING:
    from pathlib import Path


def answer(
    shared: Path,
    request: dict[str, Any],
    payload: IO[bytes],  # noqa: ARG001
) -> dict[str, Any]:
    """`nodes`: by name a piece of the samples of each, from the byte on that is `known` of it;
    `more` says that there are others. The request has the id of the `run`."""
    budget, found, more = [MOST], {}, False
    for file in sorted((shared / "runs" / request["run"] / FOLDER).glob("*.jsonl")):
        if budget[0] <= 0:
            more = True
            break
        node = file.name.removesuffix(".jsonl")
        if piece := piece_of(file, request["known"].get(node, 0), budget):
            found[node] = piece.to_json()
            more = more or piece.more
    return {"nodes": found, "more": more}
