"""What runs have held, by rows as sacct prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent.slurm import accounts, commands
from fairway_agent.slurm.reports import AccountsReport, AccountsRequest
from fairway_agent.slurm.sbatch import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE = Node((), gpus=8, cpus=96, memory=1_900_000)


def row(
    elapsed: object,
    allocated: str = "billing=192,cpu=192,gres/gpu=16,mem=0,node=2",
    nodes: int = 2,
    comment: str = "fairway train-abcdef tasks 0 0",
    user: str = "ana",
    submitted: str = "2026-03-01T10:00:00",
) -> str:
    return f"{user}|{submitted}|{nodes}|{elapsed}|{allocated}|{comment}\n"


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        ([row(3600)], 7200.0),
        # It was requeued, and is running: each start has a row.
        ([row(600), row(1800)], 4800.0),
        ([row(0, "", 2)], 0.0),  # it waits
        ([row(100, "cpu=24,gres/gpu=2,node=1", 1)], 25.0),
        ([row(100, "cpu=48,gres/gpu=2,node=1", 1)], 50.0),  # half of the CPUs
        ([row(100, "cpu=24,node=1", 1)], 25.0),
        ([row(100, "node=3", 3)], 300.0),  # no numbers are kept
        ([row(100, "cpu=999,node=2")], 200.0),  # of nodes with more CPUs
    ],
)
def test_node_seconds(rows: Sequence[str], seconds: float) -> None:
    [account] = accounts.accounts("".join(rows), NODE).values()
    assert account.node_seconds == seconds


def test_nodes_without_gpus() -> None:
    [account] = accounts.accounts(row(100, "cpu=24,node=1", 1), Node((), cpus=96)).values()
    assert account.node_seconds == 25.0


def test_runs_are_told_by_their_comment() -> None:
    rows = [
        row(10, user="ana"),
        row(10, comment="fairway train-abcdef finally 1 0", submitted="2026-03-01T09:00:00"),
        row(10, comment="fairway other-ghijkl tasks 0 2", user="bo"),
        row(10, comment="somebody's own"),
        row(10, comment=""),
        row(10, comment="fairway ../../evil tasks 0 0"),
        row(10, comment="fairway train-abcdef tasks 0 0|x"),
        row("UNLIMITED"),
        "ana|x\n",
        "\n",
    ]
    found = accounts.accounts("".join(rows), NODE)
    assert {run: account.user for run, account in found.items()} == {
        "train-abcdef": "ana",
        "other-ghijkl": "bo",
    }
    assert found["train-abcdef"].node_seconds == 40.0
    assert found["other-ghijkl"].submitted - found["train-abcdef"].submitted == 3600.0


def test_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """All users' rows, and those of each start."""
    given: list[list[str]] = []

    def run(words: list[str], **_: object) -> str:
        given.append(words)
        return "cpu|gpu:h100:8(S:0-1)|96|1900000\n" if words[0] == "sinfo" else row(100)

    monkeypatch.setattr(commands, "run", run)
    found = accounts.answer(None, AccountsRequest("nd"), None)  # type: ignore[arg-type]
    assert found.runs is not None
    assert (found.runs["train-abcdef"].node_seconds, found.why) == (200.0, "")
    assert AccountsReport.from_json(found.to_json()) == found
    sacct = given[0]
    assert sacct[:7] == ["sacct", "-n", "-P", "-X", "-D", "-a", "-r"]
    assert sacct[7:12] == ["nd", "-S", "2000-01-01T00:00:00", "-E", "now"]
    accounts.answer(None, AccountsRequest("nd", 0.0), None)  # type: ignore[arg-type]
    assert given[2][9].startswith(("1970-01-01T", "1969-12-31T"))


def test_a_cluster_without_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], **_: object) -> str:
        raise commands.Refused("Slurm accounting storage is disabled")

    monkeypatch.setattr(commands, "run", run)
    found = accounts.answer(None, AccountsRequest("nd"), None)  # type: ignore[arg-type]
    assert found == AccountsReport(None, "Slurm accounting storage is disabled")
