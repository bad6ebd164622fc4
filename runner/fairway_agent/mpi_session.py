"""Where Open MPI's launchers keep what they know of the processes that they start.

Left to themselves they take a folder in /tmp that is named for their process. One that was killed
leaves it there, and a later one of the same number cannot start. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Open MPI 4, and 5: each has one variable for all nodes, and two that go before it.
_FAMILIES = ("OMPI_MCA_orte", "PRTE_MCA_prte")
_KINDS = ("", "_local", "_remote")
_OURS = "_FAIRWAY_MPI_SESSION"  # by which a run that a task submits tells it from what a user says


def variables(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What tells them to keep it in a folder, which they make on each node. What the
    `environment` says of that stays, unless it was said so of the task that submitted this run."""
    own = str(folder)
    outer = environment.get(_OURS, own)
    said = {name for name, value in environment.items() if value != outer}
    found = {
        f"{family}_tmpdir_base": own
        for family in _FAMILIES
        if not any(f"{family}{kind}_tmpdir_base" in said for kind in _KINDS)
    }
    return found | {_OURS: own}
