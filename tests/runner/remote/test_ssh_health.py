"""What the doctor says of a plain cluster, from what its main host answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway_agent.shared.reports import Health, NodeReport, NodesReport
from fairway_core.target import NodeRange, SshAccess, Target
from fairway_runner.engines.ssh.engine import findings_of

NOW = 1_000_000.0


# Two nodes, and nothing wrong.
NODES = tuple(NodeReport(f"n{n}", address=f"10.0.0.{n}", age=5.0) for n in (1, 2))
FIT = Health(1 << 40, NOW)


def found(nodes: tuple[NodeReport, ...] = NODES, **facts: Any) -> list[tuple[str, str]]:
    access = SshAccess(host="main", user="me", shared="/data/fairway")
    target = Target(name="pair", engine="ssh", nodes=NodeRange(min=2, max=2), ssh=access)
    report = NodesReport(nodes, replace(FIT, **facts))
    return [(each.id, each.message) for each in findings_of(report, target, NOW, NOW + 1)]


def test_ssh_health_of_a_sound_cluster_has_no_findings() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (
            {"fault": "Read-only file system"},
            (
                "unwritable-folder",
                "the shared folder /data/fairway cannot be used: Read-only file system",
            ),
        ),
        ({"free": 100 << 20}, ("full-disk", "the shared folder /data/fairway has 100 MiB left")),
        (
            {"time": NOW - 90},
            ("skewed-clock", "the main host's clock differs by 90 s from this machine's"),
        ),
        (
            {"time": NOW + 91},
            ("skewed-clock", "the main host's clock differs by 90 s from this machine's"),
        ),
        ({"has_ssh": False}, ("missing-tool", "the main host has no ssh")),
    ],
)
def test_ssh_health_reports_each_fault(facts: dict[str, Any], finding: tuple[str, str]) -> None:
    assert found(**facts) == [finding]


def test_a_full_disk_is_told_with_what_makes_room() -> None:
    assert [each[0] for each in found(fault="No space left on device", free=0)] == [
        "unwritable-folder",
        "full-disk",
    ]


def test_a_node_that_is_silent_is_missing() -> None:
    silent = replace(NODES[1], fresh=False, age=600.0)
    assert found(nodes=(NODES[0], silent)) == [
        ("silent-node", "the node n2 has been silent for 10 min"),
        ("missing-nodes", "1 of 2 nodes are up"),
    ]


def test_a_node_that_lacks_something_is_missing() -> None:
    unwell = replace(NODES[1], reason="7 of 8 GPUs")
    assert found(nodes=(NODES[0], unwell)) == [
        ("unwell-node", "the node n2 is unhealthy, and gets no tasks: 7 of 8 GPUs"),
        ("missing-nodes", "1 of 2 nodes are up"),
    ]


def test_a_node_that_takes_no_connection_is_missing() -> None:
    away = replace(NODES[1], unreachable=True)
    assert found(nodes=(NODES[0], away)) == [
        ("silent-node", "the node n2 takes no connection from the main host"),
        ("missing-nodes", "1 of 2 nodes are up"),
    ]
