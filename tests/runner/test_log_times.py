"""`fairway logs --since`: what was printed from a moment on, by the notes beside the logs."""

from __future__ import annotations

import base64
import json
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.log_times import FILE
from fairway_agent.main import MARK
from fairway_core.findings import UserError
from fairway_runner.engines.remote.connection import Ended
from fairway_runner.engines.remote.log_times import bring_log_times
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_runner.moments import moment
from fairway_runner.runs.log_times import begins

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import Run

# Ten lines of ten bytes each, of which five were printed by the first look, and so on.
LOG = "".join(f"line {n:04}\n" for n in range(10))
NOTE = "50 1000000010\n70 1000000020\n100 1000003600\n"


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    made = make_run("job-a", [{"log": LOG}])
    noted(made, NOTE, ended=1e9 + 4000)
    return made


def noted(run: Run, text: str, task: int = 0, **status: Any) -> None:
    folder = run.task_folder(task)
    if text:
        (folder / FILE).write_text(text)
    facts = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**facts, **status}))


def first(run: Run, since: float) -> int:
    return begins(run, [run.log(0)], since)[run.log(0)]


@pytest.mark.parametrize(
    ("since", "offset"),
    [
        (1e9 - 5, 0),
        (1e9 + 9, 0),
        (1e9 + 10, 50),
        (1e9 + 15, 50),
        (1e9 + 20, 70),
        (1e9 + 3599, 70),
        (1e9 + 3600, 100),
        (1e9 + 5000, 100),
    ],
)
def test_where_it_begins(run: Run, since: float, offset: int) -> None:
    assert first(run, since) == offset


def test_a_line_that_was_being_printed_is_shown_whole(run: Run) -> None:
    noted(run, "45 1000000010\n")
    assert first(run, 1e9 + 11) == 40


def test_a_note_of_more_than_is_here(run: Run) -> None:
    """The log is brought by another look than its note."""
    noted(run, "50 1000000010\n5000 1000000020\n")
    assert first(run, 1e9 + 30) == 100


@pytest.mark.parametrize(("after", "offset"), [(-1.0, 0), (8.0, 0), (15.0, 100), (16.0, 100)])
def test_a_short_task_has_its_own_times(make_run: MakeRun, after: float, offset: int) -> None:
    made = make_run("job-a", [{"log": LOG}])
    noted(made, "", started=1e9, ended=1e9 + 15)
    assert first(made, 1e9 + after) == offset


@pytest.mark.parametrize(
    "status",
    [
        {"started": 1e9, "ended": 1e9 + 60},
        {"started": 1e9, "ended": 1e9 + 15, "attempt": 1},
        {"state": "running", "started": 1e9, "ended": None},
    ],
)
def test_what_nobody_noted_is_refused(
    make_run: MakeRun, fairway: RunFairway, status: dict[str, Any]
) -> None:
    made = make_run("job-a", [{"log": LOG}])
    noted(made, "", **status)
    with pytest.raises(UserError, match="no times were recorded for task 0 of job-a"):
        first(made, 1e9 + 8)
    code, out, err = fairway(
        made.folder.parents[2], "logs", "job-a", "--since", "2001-09-09T01:46:48Z"
    )
    assert (code, out) == (2, "")
    assert "leave --since out" in err


def test_a_task_that_began_since_then_is_all_of_it(make_run: MakeRun) -> None:
    made = make_run("job-a", [{"log": LOG}])
    noted(made, "", started=1e9 + 10, ended=1e9 + 100)
    assert first(made, 1e9) == 0


def test_a_setup_without_a_note_is_shown_whole(make_run: MakeRun) -> None:
    made = make_run("job-a", [{"log": LOG}])
    (made.folder / "setup").mkdir()
    log = made.folder / "setup" / "log.txt"
    log.write_text("ready\n")
    status = {"state": "succeeded", "started": 1e9, "ended": 1e9 + 90}
    (log.parent / "state.json").write_text(json.dumps(status))
    assert begins(made, [log], 1e9 + 50) == {log: 0}
    assert begins(made, [log], 1e9 + 90) == {log: 6}


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_the_command(run: Run, fairway: RunFairway) -> None:
    base = run.folder.parents[2]

    def shown(*words: str) -> str:
        code, out, err = fairway(base, "logs", "job-a", *words)
        assert code == 0, err
        return out

    late = "".join(f"line {n:04}\n" for n in (7, 8, 9))
    assert shown("--since", stamp(1e9 + 20)) == late
    assert shown("--since", stamp(1e9 + 20), "--tail", "1") == "line 0009\n"
    assert shown("--since", stamp(1e9 + 20), "--tail", "9") == late
    assert shown("--since", stamp(1e9 + 20), "--grep", "[68]$") == "line 0008\n"
    assert shown("--since", stamp(1e9), "--follow") == LOG
    assert shown("--since", "10s") == ""
    code, out, err = fairway(base, "logs", "job-a", "--since", "noon")
    assert (code, out) == (2, "")
    assert "--since: `noon` is neither a duration nor a date" in err


def test_attempts_are_counted_from_the_beginning(make_run: MakeRun, fairway: RunFairway) -> None:
    again = "fairway: attempt 2: exit code 1\n"
    made = make_run("job-a", [{"log": f"one\n{again}two\nthree\n", "attempt": 1}])
    noted(made, f"4 1000000010\n{len(again) + 8} 1000000020\n", ended=1e9 + 100)
    base = made.folder.parents[2]
    words = ("logs", "job-a", "--since", stamp(1e9 + 20), "--attempt")
    assert fairway(base, *words, "2")[1] == "three\n"
    assert fairway(base, *words, "1")[1] == ""
    [line] = made.logs(since=1e9 + 20)
    assert (line.attempt, line.text) == (2, "three")
    assert made.logs(since=datetime.fromtimestamp(1e9 + 20, UTC)) == [line]
    assert [each.text for each in made.logs(since=1e9, attempt=1)] == ["one"]


def test_a_time_of_day_is_when_it_was_that_last() -> None:
    noon = datetime(2026, 3, 4, 12, 0, 30).timestamp()  # noqa: DTZ001 - this machine's own
    assert moment("--since", "11:45", noon) == noon - 15 * 60 - 30
    assert moment("--since", "12:00:30", noon) == noon
    assert moment("--since", "12:01", noon) == noon - 24 * 3600 + 30
    assert moment("--since", "0:00", noon) == noon - 12 * 3600 - 30
    for text in ("24:00", "12:60", "12:00:61", "12", "1:2", "12:00 pm"):
        with pytest.raises(UserError, match=f"`{text}` is neither a duration") as raised:
            moment("--since", text, noon)
        assert "or since when, as 14:30" in raised.value.findings[0].hint
    assert moment("--since", "00:00") <= time.time()


class Host:
    """A cluster's host that gives these answers, one after the other."""

    name = "login.example"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def run(self, *_: object, input: bytes, **__: object) -> Ended:  # noqa: A002
        self.asked.append(json.loads(input))
        said = json.dumps({"answer": self.answers.pop(0)})
        return Ended(0, f"{MARK}{said}\n".encode(), "")


def piece(text: str, offset: int = 0) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    return {"offset": offset, "data": data, "more": False}


def bring(run: Run, host: Host) -> None:
    bring_log_times(run, RemoteHost(host, "/data/fairway"), [run.log(0)])  # type: ignore[arg-type]


def test_notes_are_brought_from_a_cluster(make_run: MakeRun) -> None:
    made = make_run("job-a", [{"log": LOG}])
    noted(made, "", started=1e9, ended=1e9 + 100)
    host = Host(
        {"pieces": {"0": piece("50 1000000010\n")}, "more": True},
        {"pieces": {"0": piece("70 1000000020\n", 14)}, "more": False},
    )
    bring(made, host)
    assert [each["known"] for each in host.asked] == [{"0": 0}, {"0": 14}]
    assert first(made, 1e9 + 20) == 70
    # Another command has brought it meanwhile.
    bring(made, Host({"pieces": {"0": piece("50 1000000010\n")}, "more": True}))
    assert (made.task_folder(0) / FILE).read_text() == "50 1000000010\n70 1000000020\n"


@pytest.mark.parametrize(
    "tasks",
    [
        {"../../evil": piece("1 1\n")},
        {"1": piece("1 1\n")},
        {"0": {"offset": 0}},
        {"0": {**piece("1 1\n"), "offset": -1}},
        {"0": {"offset": 0, "data": "AAAA", "more": False}},
        [],
        None,
    ],
)
def test_what_are_no_notes_is_refused(make_run: MakeRun, tasks: Any) -> None:
    made = make_run("job-a", [{"log": LOG}])
    before = {path for path in made.folder.parent.rglob("*") if path.suffix != ".lock"}
    with pytest.raises(UserError) as refused:
        bring(made, Host({"pieces": tasks, "more": False}))
    assert refused.value.exit_code == 5
    after = {path for path in made.folder.parent.rglob("*") if path.suffix != ".lock"}
    assert after <= before | {Path(made.task_folder(0)) / FILE}
