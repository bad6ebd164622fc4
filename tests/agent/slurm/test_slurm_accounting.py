"""What is believed of sacct, whose rows are not always the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent.slurm import jobs
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def sacct(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what sacct prints; "" is a cluster without accounting."""

    def says(text: str) -> None:
        def run(words: list[str], **_: object) -> str:
            assert words[:4] == ["sacct", "-n", "-P", "-X"]
            if not text:
                raise commands.Refused("Slurm accounting storage is disabled")
            return text

        monkeypatch.setattr(commands, "run", run)

    return says


def test_a_job_that_ended(sacct: Callable[[str], None]) -> None:
    sacct("CANCELLED by 1000|None|nd-1|2026-01-02T03:04:05|fairway r tasks 0 0\n")
    found = jobs.look_up("12", 3)
    assert (found.state, found.nodes, found.id) == ("CANCELLED", "nd-1", "12_3")


def test_slurm_accounting_of_a_requeued_job_uses_the_last_row(sacct: Callable[[str], None]) -> None:
    sacct("NODE_FAIL|None|nd-1|2026-01-02T03:04:05|c\nTIMEOUT|None|nd-2|2026-01-02T04:04:05|c\n")
    found = jobs.look_up("12", -1)
    assert (found.state, found.nodes) == ("TIMEOUT", "nd-2")


@pytest.mark.parametrize(
    "text", ["", "RUNNING|None|nd-1|Unknown|c\n", "FAILED|None|nd-1|Unknown|c\n", "\n"]
)
def test_slurm_accounting_returns_none_unless_the_job_is_known_to_have_ended(
    sacct: Callable[[str], None], text: str
) -> None:
    sacct(text)
    assert jobs.look_up("12", -1) is None
