"""A task's log: masked secrets, the line of a new attempt, and missing programs."""

import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_agent import state_files, task_logs
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task import attempts
from fairway_agent.task.scheduled import Scheduled, store_first_line
from fairway_agent.task.task import Nodes, Task
from fairway_agent.task_logs import (
    MASK,
    Mask,
    append,
    attempt_begun,
    attempt_line,
    missing_program,
    pump,
)


def masked(secrets: list[str], *pieces: bytes) -> bytes:
    mask = Mask(secrets)
    return b"".join([*map(mask.feed, pieces), mask.flush()])


SECRETS = st.lists(st.text("ab", min_size=4, max_size=30), min_size=1, max_size=3)


@tried
@given(st.data(), SECRETS, st.integers(1, 40))
def test_mask_hides_secrets_however_the_stream_is_split(
    data: st.DataObject, secrets: list[str], size: int
) -> None:
    parts = [*secrets, *(secret[:-1] for secret in secrets), "c", "abc", "ba"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=40))).encode()
    out = masked(secrets, *(text[at : at + size] for at in range(0, len(text), size)))
    assert out == masked(secrets, text)
    assert not any(secret.encode() in out for secret in secrets)
    assert out.replace(MASK, b"").count(b"c") == text.count(b"c")


def test_mask_holds_back_only_the_beginning_of_a_secret() -> None:
    mask = Mask(["hunter2"])
    assert mask.feed(b"progress 10%") == b"progress 10%"
    assert mask.feed(b"... hunt") == b"... "
    assert mask.feed(b"ing\n") == b"hunting\n"
    assert mask.flush() == b""


def test_mask_hides_nested_overlapping_and_multiline_secrets() -> None:
    assert masked(["abcd", "abcdef"], b"1abc", b"def2abcd3") == b"1***2***3"
    assert masked(["abcd", "cdef"], b"1abc", b"d", b"ef2") == b"1***2"
    assert masked(["aaaa"], b"aa", b"aaa", b"aab") == b"***b"
    touching = (bytes([each]) for each in b"abaaaaaabaaaaa")
    assert masked(["abaaaaa", "aaaa"], *touching) == b"***"
    secret = "first line\nsecond line\n}\n"
    assert masked([secret], secret.encode()) == b"***"
    assert masked([secret], b"first line\r\nsecond line\r\n}") == b"***\r\n***\r\n}"


@pytest.mark.parametrize("secret", ['it\'s "mine"', "a\\b\tc", "pässword", "'key' = \"a\\b\"\n"])
@pytest.mark.parametrize("written", [repr, ascii, json.dumps, lambda text: repr({"key": [text]})])
def test_mask_hides_secrets_as_python_and_json_write_them(
    secret: str, written: Callable[[str], str]
) -> None:
    out = masked([secret], written(secret).encode())
    assert out.decode().replace('"', "'") == written("***").replace('"', "'")


def test_mask_ignores_the_escaped_form_of_a_short_secret() -> None:
    text = rb"caf\xe9 caf\u00e9 \n\n"
    assert masked(["é", "\n\n\n"], text) == text


def test_mask_with_a_long_secret_does_not_slow_the_log_down() -> None:
    """Counted in calls, because seconds depend on the machine. One call per byte held a task up."""
    mask = Mask([secrets.token_hex(30_000)])
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    chunk = b"loss=0.25 step=7\n" * 4_000
    sys.setprofile(count)
    try:
        shown = b"".join([mask.feed(chunk), mask.feed(chunk), mask.flush()])
    finally:
        sys.setprofile(None)
    assert shown == chunk * 2
    assert calls < 1_000


def test_mask_holds_back_little_of_a_stream_of_repeated_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_logs, "_CHUNK", 2**10)
    mask = Mask(["aaaa"])
    out = b"".join(mask.feed(b"a" * 2**10) for _ in range(16))
    assert len(mask._held) < 2**13
    assert b"a" not in out


def test_pump_masks_secrets_and_ends_with_the_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    copying = pump(os.fdopen(reading, "rb"), (tmp_path / "log").open("ab"), ["hunter2"])
    os.write(writing, b"it is hun")
    os.write(writing, b"ter2\nhun")
    os.close(writing)
    copying.join()
    assert (tmp_path / "log").read_bytes() == b"it is ***\nhun"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_pump_continues_on_a_full_disk_and_writes_again_once_it_has_room(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with Path("/dev/full").open("wb", buffering=0) as log:
        copying = pump(os.fdopen(reading, "rb"), log, ["hunter2"])
        # Far more than a pipe holds: all of it is taken only if the pump continues to read.
        taken = sum(os.write(writing, b"x" * 65536) for _ in range(64))
        with (tmp_path / "log").open("wb") as room:
            os.dup2(room.fileno(), log.fileno())
        os.write(writing, b"again\n")
        os.close(writing)
        copying.join()
    assert taken == 64 * 65536
    assert (tmp_path / "log").read_bytes().endswith(b"again\n")


def test_attempt_line_names_an_existing_checkpoint(tmp_path: Path) -> None:
    """A reason of several lines stays one line of the log."""
    line = attempt_line(1, "gone\nfairway: x", str(tmp_path))
    assert line == "fairway: attempt 2: gone fairway: x"
    (tmp_path / "step-7").touch()
    line = attempt_line(2, "exit code 3", str(tmp_path))
    assert line == f"fairway: attempt 3: exit code 3; the checkpoint is in {tmp_path}"
    assert attempt_begun(line.encode()) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b"line\n"), (b"one\n", b"one\nline\n"), (b"cut of", b"cut of\nline\n")],
)
def test_attempt_line_is_appended_on_a_line_of_its_own(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    log = tmp_path / "log.txt"
    if before:  # else the file does not exist yet
        log.write_bytes(before)
    for file in (tmp_path / "gone" / "log.txt", tmp_path):
        append(file, "lost")  # a log that cannot be written loses only the line
    assert append(log, "line") == len(after) - len(b"line\n")
    assert log.read_bytes() == after
    assert list(tmp_path.iterdir()) == [log]


def test_attempt_end_reason_is_kept_for_the_next_attempt(tmp_path: Path) -> None:
    none: Any = None
    scheduler = Scheduled(none, none, none)
    task = Task(RunPlan("job-a", "/x"), TaskSpec(0), tmp_path, tmp_path)
    assert scheduler.ended_before(task) == Scheduled.BEGUN_AGAIN
    store_first_line(scheduler.before_file(task), "it ended with exit code 3")
    assert scheduler.ended_before(task) == "it ended with exit code 3"
    assert scheduler.begin(task)  # an attempt that recorded no reason has lost its node
    assert scheduler.ended_before(task) == Scheduled.BEGUN_AGAIN
    store_first_line(tmp_path / "gone" / "0", "nobody can hear this")


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("launch.sh: line 12: torchrun: command not found\n", "torchrun"),
        ("a" * 9000 + "\nlaunch.sh: line 12: torchrun: command not found", "torchrun"),
        ("sh: 1: torchrun: not found\r\n", "torchrun"),
        ("launch.sh: line 1: torchrun: command not found\n" + "a" * 9000, ""),  # long ago
        ("launch.sh: line 12: nvcc: command not found\n", ""),  # the job's own
        ("torchrun: command not found, or is it?\n", ""),
        ("", ""),
        ("\xff\x00", ""),
        (None, ""),
    ],
)
def test_missing_program_is_found_in_the_messages_of_shells(
    tmp_path: Path, log: str | None, found: str
) -> None:
    if log is not None:
        (tmp_path / "log.txt").write_bytes(log.encode("latin-1"))
    assert missing_program(("torchrun",), tmp_path / "log.txt") == found


@pytest.mark.parametrize(
    ("script", "needs", "says"),
    [
        ("no-such-launcher --n 2", ("no-such-launcher",), True),
        ("no-such-launcher --n 2", (), False),
        ("no-such-launcher; exit 3", ("no-such-launcher",), False),
        ("exit 127", ("no-such-launcher",), False),
    ],
)
def test_missing_program_is_reported_as_the_reason_of_its_task(
    tmp_path: Path, script: str, needs: tuple[str, ...], says: bool
) -> None:
    (tmp_path / "job.json").write_text("{}")
    plan = RunPlan("job-a", str(tmp_path), needs=needs)
    reason, log = _ended(Task(plan, TaskSpec(0, script=script), tmp_path, tmp_path / "tasks/0"))
    why = (
        "`no-such-launcher` is not on the node's PATH: install what has no-such-launcher in the "
        "job's `setup:`, use an image that has it, or give the job a `container:`"
    )
    assert reason == (why if says else None)
    assert log.endswith(f"fairway: {why}\n") is says


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (0, "is not on the PATH of the job's container: use an image that has it"),
        ("setup", "is not on the node's PATH: pip install torch"),  # setup runs outside
    ],
)
def test_missing_program_in_a_container_is_blamed_on_its_image(
    tmp_path: Path, name: int | str, says: str
) -> None:
    (tmp_path / "job.json").write_text('{"container": {"image": "a"}}')
    plan = RunPlan("job-a", str(tmp_path), needs=("torchrun",))
    script = "echo launch.sh: line 1: torchrun: command not found; exit 127"
    spec = TaskSpec(name, script=script)
    task = Task(plan, spec, tmp_path, tmp_path / "task", nodes=_Inside())
    reason, log = _ended(task)
    assert f"`torchrun` {says}" in (reason or "")
    assert f"fairway: `torchrun` {says}" in log


class _Inside(Nodes):
    """Nodes on which this program runs in the job's container already."""

    def command(self, _: Task, script: Path) -> list[str]:
        return ["bash", str(script)]


def _ended(task: Task) -> tuple[str | None, str]:
    """Runs the task to its end and returns the recorded reason and the log."""
    attempts.launch(task)
    task.process.wait()
    code = task.ended()
    assert code is not None
    task.finish("failed", code)
    known = state_files.read_task(task.folder)
    return known.reason, (task.folder / "log.txt").read_text()
