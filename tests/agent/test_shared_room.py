"""Whether a shared folder can be used."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from fairway_agent.shared.runs import probe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def full() -> Iterator[None]:
    """Files are made, and take no byte: as over a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_is_made_and_left_as_it_is(tmp_path: Path) -> None:
    free, fault = probe(tmp_path / "shared/folder")
    assert free > 0
    assert fault == ""
    assert list((tmp_path / "shared/folder").iterdir()) == []


@pytest.mark.usefixtures("full")
def test_shared_room_probe_of_an_unwritable_folder_reports_the_fault(tmp_path: Path) -> None:
    assert probe(tmp_path)[1] == "File too large"


def test_shared_room_probe_without_a_folder_still_reports_free_space(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    free, fault = probe(tmp_path / "file/folder")
    assert free > 0
    assert fault == "Not a directory"
