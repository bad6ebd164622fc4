"""The setup of a run, as the nodes' preparation tells of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_agent.state_files import TaskState
from fairway_runner.engines.batch import poller

if TYPE_CHECKING:
    from pathlib import Path

DONE = {
    "state": "completed",
    "startTime": "2026-03-01T12:00:00Z",
    "endTime": "2026-03-01T12:00:05Z",
}


class Account:
    """Nodes that have the files of a setup that failed."""

    def node_file(self, _node: str, name: str, _first: int, _last: int) -> bytes:
        return json.dumps({"exit_code": 3}).encode() if name.endswith("json") else b"words\n"


def test_batch_setup_status_skips_nodes_without_facts(tmp_path: Path) -> None:
    """Both properties are optional in the service's model."""
    nodes: list[Any] = [
        {"nodeId": "waits"},
        {"nodeId": "without", "jobPreparationTaskExecutionInfo": DONE},
        {"nodeId": "n", "jobPreparationTaskExecutionInfo": {**DONE, "taskRootDirectory": "w"}},
    ]
    account: Any = Account()
    log = tmp_path / "log.txt"
    found = poller.setup_status(nodes, account, log, ended=False)
    assert (found.node, found.state, found.exit_code) == ("n", "failed", 3)
    assert log.read_text() == "words\n"
    assert poller.setup_status(nodes[:1], account, log, ended=False) == TaskState()
