"""Lines that `fairway logs` shows: the last ones, matches of a pattern, and those of a rank."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_agent import process_limits
from fairway_cli.ui.follow import Shape, copy_logs, tail_offset
from fairway_runner.runs.log_lines import LogLine, Selection, logs_of, names_ranks, require_attempt
from fairway_runner.runs.records import STEPS_FILE
from fairway_runner.runs.store import Run

RANKS = "".join(f"[1,{rank}]<stdout>: step {step}\n" for step in (1, 2) for rank in (0, 1))


def _shown(run: Run, shape: Shape | None = None, **wanted: Any) -> str:
    out = io.BytesIO()
    logs = logs_of(run, wanted.pop("task", None), wanted.get("ranks"))
    copy_logs(run, Selection(logs, **wanted), out, shape or Shape(), follow=False)
    return out.getvalue().decode()


@pytest.mark.parametrize(
    ("text", "lines", "left"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc\n", 3, "a\nb\nc\n"),
        ("a\nb\nc\n", 0, ""),
        ("", 2, ""),
        ("a\n\n\n", 2, "\n\n"),
        ("x" * 70_000 + "\n" + "y" * 70_000 + "\nz\n", 2, "y" * 70_000 + "\nz\n"),
    ],
)
def test_logs_tail_shows_the_last_lines(
    make_run: MakeRun, text: str, lines: int, left: str
) -> None:
    run = make_run("job-a", [{"log": text}])
    assert _shown(run, tail=lines) == left


def test_logs_grep_selects_matching_lines_and_refuses_bad_patterns(
    make_run: MakeRun, here: RunFairway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make_run("job-a", [{"log": "loss 1\nstep\r\nloss 2\nloss 3\n"}, {"log": "loss 4\n"}])
    losses = {"grep": re.compile("^loss [^2]")}
    assert _shown(run, **losses) == "[0] loss 1\n[0] loss 3\n[1] loss 4\n"
    assert _shown(run, **losses, tail=1) == "[0] loss 3\n[1] loss 4\n"
    assert _shown(run, **losses, task=1) == "loss 4\n"
    make_run("job-b")
    ends(here("logs", "job-b", "--grep", "loss["), 2, "--grep: `loss[` is not a regular expression")
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.05)
    run = make_run("job-c", [{"log": "a" * 40 + "!\n"}])
    refused(lambda: _shown(run, grep=re.compile("(a+)+$")), "` was stopped after")
    assert tail_offset(tmp_path / "log.txt", 3) == 0


def test_logs_of_ranks_are_selected_named_and_coloured(make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": RANKS + "mpirun says\n"}])
    assert _shown(run, ranks={1}) == "step 1\nstep 2\n"
    assert _shown(run, ranks={1}, tail=1) == "step 2\n"
    second = "[1,0]<stdout>: step 2\n[1,1]<stdout>: step 2\n"
    assert _shown(run, grep=re.compile("^step 2")) == second
    named = "".join(f"[{rank}] step {step}\n" for step in (1, 2) for rank in (0, 1))
    assert _shown(run, Shape(named=True)) == f"{named}mpirun says\n"
    assert _shown(run, Shape(named=True), ranks={1}) == "step 1\nstep 2\n"
    zero, one = "\x1b[36m[0]\x1b[0m ", "\x1b[33m[1]\x1b[0m "
    coloured = Shape(coloured=True)
    shown = f"{zero}step 1\n{one}step 1\n{zero}step 2\n{one}step 2\nmpirun says\n"
    assert _shown(run, coloured) == shown
    assert _shown(run, Shape(coloured=True), ranks={1}) == f"{one}step 1\n{one}step 2\n"
    run = make_run("job-b", [{"log": "begin\n"}, {"log": RANKS}])
    shown = [f"[1.{rank}] step {step}" for step in (1, 2) for rank in (0, 1)]
    assert _shown(run, Shape(named=True)).splitlines() == ["[0] begin", *shown]
    plain, zero = "\x1b[36m[0]\x1b[0m begin", "\x1b[36m[1.0]\x1b[0m step 1"
    assert _shown(run, Shape(coloured=True)).splitlines()[:2] == [plain, zero]
    text = f"[1,{'9' * 5000}]<stdout>: x"
    run = make_run("job-c", [{"log": f"{text}\n"}], metrics={"x": "x=([0-9]+)"})
    assert run.logs() == [LogLine(0, 1, None, text)]
    assert run.tasks[0].metrics == {}


class Terminal(io.BytesIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_logs_on_a_terminal_keep_only_colour_escapes(make_run: MakeRun) -> None:
    text = "\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J 50%\r100%\n"
    run = make_run("job-a", [{"log": text}])
    assert _shown(run) == text
    for each, begin in ((run, ""), (make_run("job-b", [{"log": text}] * 2), "[0] ")):
        copy_logs(each, Selection(logs_of(each)), out := Terminal(), Shape(), follow=False)
        assert out.getvalue().startswith(f"{begin}\x1b[31mred\x1b[0m 50%\r100%\n".encode())


def test_logs_in_a_pipe_name_ranks_if_the_job_sets_label_ranks(
    make_run: MakeRun, here: RunFairway
) -> None:
    run = make_run("job-a", [{"log": RANKS}])
    raw = here("logs", "job-a")[1]
    assert raw == RANKS
    (run.folder / "job.json").write_text('{"options": {"label_ranks": true}}')
    shown = here("logs", "job-a", "--tail", "1")[1]
    assert shown == "[1] step 2\n"


@pytest.mark.parametrize(
    ("options", "script", "named"),
    [
        ({}, "label_ranks=()", True),
        ({}, "exec mpirun", False),
        ({}, "exec bash -c 'train --label_ranks'", False),
        ({"label_ranks": False}, "label_ranks=()", False),
        ({"label_ranks": True}, "exec mpirun", True),
    ],
)
def test_logs_name_ranks_if_the_launcher_or_the_job_labels_them(
    make_run: MakeRun, options: dict[str, bool], script: str, named: bool
) -> None:
    run = make_run("job-a", [{"log": "plain\n", "processes_per_node": 2}])
    (run.folder / "job.json").write_text(json.dumps({"options": options}))
    tasks = run.folder / "tasks.jsonl"
    specs = [json.loads(line) for line in tasks.read_text().splitlines()]
    tasks.write_text("".join(json.dumps({**each, "script": script}) + "\n" for each in specs))
    assert names_ranks(run) == named
    if "label_ranks" not in options or not options["label_ranks"]:
        # Without labels, the rank of a line is unknown; an empty result would mislead.
        refused(lambda: run.logs(rank=1), "does not say which rank printed a line")


AGAIN = "one\nfairway: attempt 2: the one before ended with exit code 3\ntwo\n"
LOST = "one\nfairway: attempt 1 lost its node, and the last lines that it printed\ntwo\n"
TWICE = {"attempt": 1, "begins": [4]}


@pytest.mark.parametrize("log", [AGAIN, LOST])
def test_logs_of_an_attempt_show_only_its_lines(make_run: MakeRun, log: str) -> None:
    run = make_run("job-a", [{"log": log, **TWICE}, {"log": "other\n"}])

    def shown(attempt: int) -> list[str]:
        require_attempt(run, [0, 1], attempt)
        return _shown(run, attempt=attempt).splitlines()

    first, line, second = (f"[0] {each}" for each in log.splitlines())
    assert shown(1) == [first, "[1] other"]
    assert shown(2) == [line, second]
    finding = refused(lambda: shown(3), "job-a has no attempt 3")
    assert finding.hint == "its attempts are 1 to 2"
    assert refused(lambda: require_attempt(run, [1], 2)).hint == "its only attempt is 1"


def test_logs_ignore_attempt_lines_that_a_program_printed(
    make_run: MakeRun, here: RunFairway
) -> None:
    """A program may print the log of a run that it submitted."""
    log = "one\nfairway: attempt 2: a line of its own\ntwo\nfairway: attempt 1 left no more lines\n"
    twice = {"attempt": 1, "begins": [len(log) + 4]}
    make_run("job-a", [{"log": log}, {"log": log + AGAIN, **twice}])
    of = [(each[0], each[1]) for each in _records(here, "job-a")]
    assert of == [*([(0, 1)] * 4), *([(1, 1)] * 5), *([(1, 2)] * 2)]
    ends(here("logs", "job-a", "--task", "0", "--attempt", "1"), 0, printed=log)
    # A log may be read before the state that belongs to it.
    for state, seen in (("queued", 2), ("running", 1)):
        going = make_run(f"job-{state}", [{"log": AGAIN, "state": state}], state="running")
        assert [line.attempt for line in going.logs()] == [1, seen, seen]


@pytest.mark.parametrize("is_attempt", [True, False])
def test_logs_followed_leave_a_line_that_may_begin_an_attempt_for_the_next_look(
    make_run: MakeRun, is_attempt: bool
) -> None:
    """The log may arrive before its state."""
    run = make_run("job-a", [{"log": AGAIN, "state": "running"}], state="running")
    (log,) = logs_of(run)
    assert [line.text for line in log.lines(ended=False)] == ["one"]
    assert log.has_grown()
    if is_attempt:
        state = run.task_folder(0) / "state.json"
        state.write_text(json.dumps({"state": "running", **TWICE}))
    assert [line.attempt for line in log.lines(ended=False)] == [1 + is_attempt] * 2


def test_logs_of_an_unknown_attempt_are_refused(make_run: MakeRun, here: RunFairway) -> None:
    make_run("job-a")
    assert here("logs", "job-a", "--attempt", "0")[0] == 2
    make_run("job-b", [{"state": "queued", "attempt": None}], state="queued")
    ends(here("logs", "job-b", "--attempt", "1"), 2, "none has begun yet")


def test_run_logs_returns_lines_as_records(make_run: MakeRun) -> None:
    """`Run.logs` returns the task, attempt and rank of each line, and its text without labels."""
    logs = [{"log": RANKS.replace("\n", "\r\n"), "processes_per_node": 2}]
    run = make_run("job-a", [*logs, {"log": f"{AGAIN}\xff", **TWICE}, {}])
    ranks = [LogLine(0, 1, rank, f"step {step}") for step in (1, 2) for rank in (0, 1)]
    one, again, two = AGAIN.splitlines()
    second = [LogLine(1, 2, None, text) for text in (again, two, "\xff")]
    assert run.logs() == [*ranks, LogLine(1, 1, None, one), *second]
    assert run.logs(task=0, rank=1, grep="^step 2$") == [ranks[3]]
    assert run.logs(attempt=2) == second
    assert run.logs(tail=1) == [ranks[3], second[-1]]
    assert run.logs(tail=0) == []


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"task": 2}, "job-a has no task 2"),
        ({"task": -1}, "job-a has no task -1"),
        ({"rank": 1}, "job-a has no rank 1"),
        ({"rank": 0}, "does not say which rank"),
        ({"attempt": 0}, "job-a has no attempt 0"),
        ({"grep": "("}, "is not a regular expression"),
        ({"tail": -1}, "tail: -1 is below 0"),
    ],
)
def test_run_logs_refuses_unknown_tasks_ranks_and_attempts(
    make_run: MakeRun, wanted: Any, says: str
) -> None:
    run = make_run("job-a", [{"log": "one\n"}, {}])
    refused(lambda: run.logs(**wanted), says)


def test_logs_of_the_only_rank_are_all_lines(make_run: MakeRun, here: RunFairway) -> None:
    run = make_run("job-a", [{"log": "one\n"}])
    assert run.logs(rank=0) == [LogLine(0, 1, None, "one")]
    assert here("logs", "job-a", "--rank", "0", "--node", "0")[:2] == (0, "one\n")
    ends(here("logs", "job-a", "--node", "1"), 2, "job-a has no node 1")
    steps = [{"name": "one", "run": "job-a-one", "target": "local", "after": {}}]
    (run.folder / STEPS_FILE).write_text(json.dumps({"steps": steps}))
    ends(here("logs", "job-a", "--rank", "0"), 2, "name the run of one of them: job-a-one")


def _records(here: RunFairway, *words: str) -> list[Any]:
    code, out, err = here("logs", *words, "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    return [tuple(json.loads(line).values()) for line in out.splitlines()]


def test_logs_json_prints_one_object_per_line(make_run: MakeRun, here: RunFairway) -> None:
    """The records equal those of `Run.logs`, with any selection of lines."""
    logs = [{"log": RANKS.replace("\n", "\r\n"), "processes_per_node": 2}]
    run = make_run("job-a", [*logs, {"log": f"{AGAIN}\xff\x1b[2J\n", **TWICE}, {}])
    every = [(each.task, each.attempt, each.rank, each.text) for each in run.logs()]
    assert len(every) == 8
    assert _records(here, "job-a") == every
    assert _records(here, "job-a", "-f") == every
    assert _records(here, "job-a", "--tail", "1") == [every[3], every[-1]]
    assert _records(here, "job-a", "--attempt", "2") == every[5:]
    assert _records(here, "job-a", "--task", "0", "--rank", "1") == every[1:4:2]
    assert _records(here, "job-a", "--grep", "^step 2$") == every[2:4]
    assert _records(here, "job-a", "--task", "2") == []
    out = here("logs", "job-a", "--json", "--tail", "1", "--task", "0")[1]
    assert json.loads(out) == {"task": 0, "attempt": 1, "rank": 1, "text": "step 2"}
    ends(here("logs", "job-a", "--json", "--task", "7"), 2, printed="")
    run = make_run("job-b", [{"log": "one\n"}, {}])
    (run.folder / "finally.jsonl").write_text("{}")
    run.log(1).parent.mkdir(exist_ok=True)
    run.log(1).write_text("merged")
    (run.folder / "setup.jsonl").write_text("{}")
    (run.folder / "setup").mkdir()
    (run.folder / "setup/log.txt").write_text("installed\n")
    named = [("setup", "installed"), (0, "one"), ("finally", "merged")]
    assert [(each[0], each[3]) for each in _records(here, "job-b")] == named
    assert _records(here, "job-b", "--task", "finally") == [("finally", 1, None, "merged")]
    setup = ("job-b", "--task", "setup")
    assert _records(here, *setup, "--attempt", "1") == [("setup", 1, None, "installed")]
    assert here("logs", *setup)[1] == "installed\n"
    ends(here("logs", *setup, "--rank", "1"), 2, printed="")
    ends(here("logs", "job-a", "--task", "setup"), 2, printed="")
