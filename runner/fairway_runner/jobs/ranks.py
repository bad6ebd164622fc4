"""Placement of ranks on nodes, and detection of scripts that label their output."""

from __future__ import annotations

import re

# The function or the variable by which a script does it.
_LABELS = re.compile(r"^label_ranks(?:\(\) \{|=\()", re.MULTILINE)


def labels_ranks(script: str) -> bool:
    """True if a launcher's script labels its ranks' output: a job's own command may well contain
    these words."""
    return _LABELS.search(script) is not None


def ranks_of_node(node: int, processes_per_node: int) -> range:
    """The ranks of a node, from 0: launchers fill one node after the other."""
    return range(node * processes_per_node, (node + 1) * processes_per_node)
