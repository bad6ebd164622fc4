"""Ports that a job's processes listen on."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from fairway_agent.fanout import launchers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration


def test_free_port_is_below_the_ephemeral_range() -> None:
    first = int(launchers._RANGE.read_text().split()[0])
    for _ in range(200):
        assert 6000 < launchers.free_port(8) <= first - 8


def test_free_port_of_a_row_without_enough_free_ports_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(launchers, "_LOWEST", port - 2)
        monkeypatch.setattr(launchers, "_RANGE", tmp_path / "range")
        (tmp_path / "range").write_text(f"{port + 2}\t60999\n")
        with pytest.raises(OSError, match="no 3 ports in a row"):
            launchers.free_port(3)


def test_a_machine_that_does_not_say_its_range(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launchers, "_RANGE", tmp_path / "missing")
    assert launchers._LOWEST <= launchers.free_port() < 32_768


@pytest.mark.parametrize("first", [1024, 9000, 10_000])
def test_a_machine_whose_connections_may_have_every_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: int
) -> None:
    """Two tasks that begin at once on a node get two ports, most likely."""
    monkeypatch.setattr(launchers, "_RANGE", tmp_path / "range")
    (tmp_path / "range").write_text(f"{first}\t65535\n")
    found = {launchers.free_port() for _ in range(50)}
    assert len(found) > 10
    assert min(found) >= launchers._LOWEST
