"""What is said of a plain cluster whose main host has answered, and of runs without a node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.shared.reports import Health, NodeReport, NodesReport
from fairway_core.findings import Finding, UserError
from fairway_core.target import NodeRange, SshAccess, Target
from fairway_runner.engines.remote.remote_host import connection_to
from fairway_runner.engines.ssh.engine import SshEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.runs.store import Run

NOW = 1_000_000.0


# Two nodes, and nothing wrong.
NODES = tuple(NodeReport(f"n{n}", address=f"10.0.0.{n}", age=5.0) for n in (1, 2))
FIT = Health(1 << 40, NOW)


def found(nodes: tuple[NodeReport, ...] = NODES, **facts: Any) -> list[tuple[str, str]]:
    access = SshAccess(host="main", user="me", shared="/data/fairway")
    target = Target(name="pair", engine="ssh", nodes=NodeRange(min=2, max=2), ssh=access)
    report = NodesReport(nodes, replace(FIT, **facts))
    return [(each.id, each.message) for each in SshEngine(target).findings_of(report, NOW, NOW + 1)]


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
        *(
            (
                {"time": time},
                ("skewed-clock", "the main host's clock differs by 90 s from this machine's"),
            )
            for time in (NOW - 90, NOW + 91)
        ),
        ({"has_ssh": False}, ("missing-tool", "the main host has no ssh")),
    ],
)
def test_ssh_health_reports_each_fault(facts: dict[str, Any], finding: tuple[str, str]) -> None:
    assert found() == []
    assert found(**facts) == [finding]


def test_a_full_disk_is_told_with_what_makes_room() -> None:
    assert [each[0] for each in found(fault="No space left on device", free=0)] == [
        "unwritable-folder",
        "full-disk",
    ]


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (
            {"fresh": False, "age": 600.0},
            ("silent-node", "the node n2 has been silent for 10 min"),
        ),
        (
            {"reason": "7 of 8 GPUs"},
            ("unwell-node", "the node n2 is unhealthy, and gets no tasks: 7 of 8 GPUs"),
        ),
        (
            {"unreachable": True},
            ("silent-node", "the node n2 takes no connection from the main host"),
        ),
    ],
)
def test_a_node_that_is_not_fit_is_missing(facts: dict[str, Any], finding: tuple[str, str]) -> None:
    assert found(nodes=(NODES[0], replace(NODES[1], **facts))) == [
        finding,
        ("missing-nodes", "1 of 2 nodes are up"),
    ]


def _refused(call: Callable[[], object]) -> Finding:
    with pytest.raises(UserError) as caught:
        call()
    (finding,) = caught.value.findings
    return finding


def test_a_run_that_waits_has_no_node_yet(make_run: Callable[..., Run]) -> None:
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued", engine="ssh")
    engine: Any = SshEngine.__new__(SshEngine)
    for call, said in (
        (lambda: engine.main_host(run), "job-aaaaaa has no node yet"),
        (lambda: engine.enter(run, 0, 0, []), "task 0 of job-aaaaaa has no node yet"),
    ):
        found = _refused(call)
        assert found.message == said
        assert found.hint == "wait until it runs: fairway show job-aaaaaa"


def test_this_machine_needs_no_tunnel() -> None:
    here = connection_to("localhost", "")
    found = _refused(lambda: here.interactive([], forward="6007:localhost:6006"))
    assert found.message == f"{here.name} needs no tunnel"
    assert found.hint == "connect to localhost:6006"
