"""What the doctor says of a plain cluster, from what its main host answers."""

from __future__ import annotations

from typing import Any

import pytest

from fairway_core.target import NodeRange, SshAccess, Target
from fairway_runner.engines.ssh.health import findings_of

NOW = 1_000_000.0


def answer(**facts: Any) -> dict[str, Any]:
    """Two nodes, and nothing wrong."""
    fresh = {"fresh": True, "age": 5.0, "unreachable": False, "trouble": ""}
    nodes = [{"name": f"n{n}", "address": f"10.0.0.{n}", **fresh} for n in (1, 2)]
    fit = {"hosts": nodes, "time": NOW, "fault": "", "free": 1 << 40, "has_ssh": True}
    return {**fit, **facts}


def found(**facts: Any) -> list[tuple[str, str]]:
    access = SshAccess(host="main", user="me", shared="/data/fairway")
    target = Target(name="pair", engine="ssh", nodes=NodeRange(min=2, max=2), ssh=access)
    return [(each.id, each.message) for each in findings_of(answer(**facts), target, NOW, NOW + 1)]


def test_nothing_is_said_of_a_fit_cluster() -> None:
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
            ("skewed-clock", "the main host's clock is 90 s away from this machine's"),
        ),
        (
            {"time": NOW + 91},
            ("skewed-clock", "the main host's clock is 90 s away from this machine's"),
        ),
        ({"has_ssh": False}, ("missing-tool", "the main host has no ssh")),
    ],
)
def test_each_fault_is_named(facts: dict[str, Any], finding: tuple[str, str]) -> None:
    assert found(**facts) == [finding]


def test_a_node_that_is_silent_is_missing() -> None:
    hosts = answer()["hosts"]
    hosts[1] |= {"fresh": False, "age": 600.0}
    assert found(hosts=hosts) == [
        ("silent-node", "the node n2 has been silent for 10 min"),
        ("missing-nodes", "1 of 2 nodes are there"),
    ]


def test_a_node_that_lacks_something_is_missing() -> None:
    hosts = answer()["hosts"]
    hosts[1] |= {"trouble": "7 of 8 GPUs"}
    assert found(hosts=hosts) == [
        ("unwell-node", "the node n2 is unwell, and gets no tasks: 7 of 8 GPUs"),
        ("missing-nodes", "1 of 2 nodes are there"),
    ]


def test_a_node_that_takes_no_connection_is_missing() -> None:
    hosts = answer()["hosts"]
    hosts[1] |= {"unreachable": True}
    assert found(hosts=hosts) == [
        ("silent-node", "the node n2 takes no connection from the main host"),
        ("missing-nodes", "1 of 2 nodes are there"),
    ]
