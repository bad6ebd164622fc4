"""When a log had which size: noted by a clock of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_agent import task
from fairway_agent.log_times import PAUSE, LogClock, parsed, read
from fairway_agent.plan import RunPlan
from fairway_agent.shared import growing_files
from fairway_agent.shared.reports import LOG_TIMES, PiecesRequest
from fairway_agent.task import Task
from fairway_agent.task_spec import TaskSpec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_size_is_noted_once(tmp_path: Path) -> None:
    log, note = tmp_path / "log.txt", tmp_path / "log.times"
    clock = LogClock.begin(log, note, 100.0)
    assert clock.due == 100.0 + PAUSE
    clock.look(110.0, 1e9)  # there is no log yet
    assert not note.exists()
    log.write_bytes(b"one\n")
    clock.look(120.0, 1e9 + 10.9)
    clock.look(130.0, 1e9 + 20)
    log.write_bytes(b"one\ntwo\n")
    clock.look(140.0, 1e9 + 30)
    assert clock.due == 140.0 + PAUSE
    assert read(note) == [(4, 1_000_000_010), (8, 1_000_000_030)]


def test_what_an_attempt_has_left_is_not_the_next_ones(tmp_path: Path) -> None:
    log, note = tmp_path / "log.txt", tmp_path / "log.times"
    log.write_bytes(b"one\n")
    clock = LogClock.begin(log, note, 0.0)
    clock.look(10.0, 1e9)
    assert not note.exists()


@pytest.mark.parametrize(("last", "looked", "noted"), [(True, 0, 0), (False, 0, 1), (True, 1, 2)])
def test_the_end_of_a_short_attempt_is_noted_where_another_follows(
    tmp_path: Path, last: bool, looked: int, noted: int
) -> None:
    log, note = tmp_path / "log.txt", tmp_path / "log.times"
    clock = LogClock.begin(log, note, 0.0)
    log.write_bytes(b"one\n")
    if looked:
        clock.look(10.0, 1e9)
        log.write_bytes(b"one\ntwo\n")
    clock.end(1e9 + 5, last=last)
    assert len(read(note)) == noted


def test_a_disk_that_is_full_costs_times_alone(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"one\n")
    clock = LogClock(tmp_path / "log.txt", tmp_path / "gone" / "log.times", 0.0)
    clock.look(10.0, 1e9)
    assert clock.due == 20.0


def test_what_is_no_note_is_passed_over(tmp_path: Path) -> None:
    lines = [
        *(b"4 100", b"", b"x", b"-1 5", b"8", b"8 101 7", b"9" * 30 + b" 101", b"8 1e3"),
        *(b"3 102", b"8 99", b"8 103", "\u0663 104".encode(), b"9 999999999999", b"9 104"),
    ]
    assert parsed(b"\n".join(lines)) == [(4, 100), (8, 103), (9, 104)]
    assert read(tmp_path / "nothing") == []
    assert read(tmp_path) == []


def test_a_task_notes_it_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that its supervisor looks after it and ten seconds have gone."""
    mine = Task(RunPlan("job-a", str(tmp_path)), TaskSpec(0, script="true\n"), tmp_path, tmp_path)
    mine.start()
    try:
        assert mine.clock is not None
        due = mine.deadline()
        assert due is not None
        assert due <= mine.clock.due
        (tmp_path / "log.txt").write_bytes(b"one\n")
        mine.keep_deadline()
        assert read(tmp_path / "log.times") == []
        now = mine.clock.due
        monkeypatch.setattr(task.time, "monotonic", lambda: now)
        mine.keep_deadline()
        [(size, _)] = read(tmp_path / "log.times")
        assert size == 4
    finally:
        assert mine.process is not None
        mine.process.wait()
        mine.ended()


def test_pieces_of_notes_are_told_to_who_asks(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "job-a"
    for folder, text in (
        ("tasks/0", "4 100\n8 110\n"),
        ("tasks/1", "5 100\n"),
        ("setup", "6 90\n"),
    ):
        (run / folder).mkdir(parents=True)
        (run / folder / "log.times").write_text(text)
    known = {"0": 6, "1": 6, "2": 0, "setup": 0}
    found = growing_files.answer(tmp_path, PiecesRequest("job-a", LOG_TIMES, known), None)
    assert (set(found.pieces), found.more) == ({"0", "setup"}, False)
    assert found.pieces["0"].offset == 6
