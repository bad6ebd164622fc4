"""Node pools of Kubernetes in the stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    Written = Callable[..., dict[str, dict[str, Any]]]

_FILE = """
name: lab
location: westeurope
filesystems: {data: {kind: azure_files, gib: 1024, path: /data}}
clusters:
  nd: {engine: kubernetes, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}
"""


def test_nothing_makes_node_pools_yet(written: Written) -> None:
    with pytest.raises(UserError, match="nothing makes node pools of Kubernetes yet"):
        written(_FILE)
