"""What can be checked in a user's own formula before Batch sees it."""

from __future__ import annotations

import re

from fairway_core.catalog import limit
from fairway_core.documents import FieldError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TARGET = re.compile(r"\$Target(Dedicated|LowPriority)(?:Nodes)?\s*=(?!=)\s*([^;]*)")
_SAMPLES = re.compile(r"\.GetSample\s*\(")
_GUARD = re.compile(r"\.GetSamplePercent\s*\(")
_KINDS = {"Dedicated": "dedicated", "LowPriority": "Spot"}
_SHORTER = "shorten it, or name a `scenario:` in its place"


def check_formula(formula: str, *, spot: bool, mpi: bool) -> None:
    """Raises FieldError where Batch would refuse the formula, or where it would do harm.

    It must be within Batch's size, set the target of the pool's kind of nodes, leave the
    other kind at 0 where the nodes talk to each other, and see whether samples are there.
    """
    _check_size(formula)
    text = _COMMENT.sub(" ", formula)
    targets: dict[str, list[str]] = {}
    for kind, value in _TARGET.findall(text):
        targets.setdefault(_KINDS[kind], []).append(value.strip())
    own, other = ("Spot", "dedicated") if spot else ("dedicated", "Spot")
    if own not in targets:
        name = "$TargetLowPriorityNodes" if spot else "$TargetDedicatedNodes"
        raise FieldError(f"the formula does not set the number of {own} nodes", f"set `{name}`")
    if mpi and any(value != "0" for value in targets.get(other, [])):
        raise FieldError(
            f"the formula also sets {other} nodes, and a pool for MPI holds only one kind",
            "set the other target to 0, or set `mpi: false` where each job takes one node",
        )
    if not spot and any(value != "0" for value in targets.get(other, [])):
        raise FieldError("the formula sets Spot nodes", "set `spot: true`")
    alone = [match for match in _SAMPLES.finditer(text) if not _has_second(text[match.end() :])]
    if alone and not _GUARD.search(text):
        raise FieldError(
            "the formula reads samples without checking that they exist",
            "guard them with `GetSamplePercent`, or add a percentage: GetSample(interval, 70)",
        )


def _has_second(arguments: str) -> bool:
    """Whether a call has a second argument; the text starts behind its opening bracket."""
    depth = 0
    for character in arguments:
        if character == "," and depth == 0:
            return True
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
    return False


def _check_size(formula: str) -> None:
    size, most = len(formula.encode()), limit("batch_autoscale_formula_bytes")
    if size > most:
        raise FieldError(
            f"the formula has {size} bytes, and Batch accepts at most {most}", _SHORTER
        )
    statements = [part for part in _COMMENT.sub(" ", formula).split(";") if part.strip()]
    most = limit("batch_autoscale_formula_statements")
    if len(statements) > most:
        message = f"the formula has {len(statements)} statements, and Batch accepts at most {most}"
        raise FieldError(message, _SHORTER)
