"""Secrets in what a task prints: none gets through, and nothing else is held back."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_agent.task_logs import MASK, Mask, Pump
from fairway_core.findings import Location, UserError
from fairway_runner.submit.run_plan import secret_values


def masked(secrets: list[str], *pieces: bytes) -> bytes:
    mask = Mask(secrets)
    return b"".join([*map(mask.feed, pieces), mask.flush()])


SECRETS = st.lists(st.text("ab", min_size=4, max_size=30), min_size=1, max_size=3)


@tried
@given(st.data(), SECRETS, st.integers(1, 40))
def test_no_secret_is_left_wherever_the_stream_is_cut(
    data: st.DataObject, secrets: list[str], size: int
) -> None:
    parts = [*secrets, *(secret[:-1] for secret in secrets), "c", "abc", "ba"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=40))).encode()
    out = masked(secrets, *(text[at : at + size] for at in range(0, len(text), size)))
    assert out == masked(secrets, text)
    assert not any(secret.encode() in out for secret in secrets)
    assert out.replace(MASK, b"").count(b"c") == text.count(b"c")


def test_masking_holds_back_only_the_beginning_of_a_secret() -> None:
    mask = Mask(["hunter2"])
    assert mask.feed(b"progress 10%") == b"progress 10%"
    assert mask.feed(b"... hunt") == b"... "
    assert mask.feed(b"ing\n") == b"hunting\n"
    assert mask.flush() == b""


def test_secrets_within_and_over_one_another() -> None:
    assert masked(["abcd", "abcdef"], b"1abc", b"def2abcd3") == b"1***2***3"
    assert masked(["abcd", "cdef"], b"1abc", b"d", b"ef2") == b"1***2"
    assert masked(["aaaa"], b"aa", b"aaa", b"aab") == b"***b"


def test_lines_of_a_secret_and_other_line_ends() -> None:
    secret = "first line\nsecond line\n}\n"
    assert masked([secret], secret.encode()) == b"***"
    assert masked([secret], b"first line\r\nsecond line\r\n}") == b"***\r\n***\r\n}"


@pytest.mark.integration
def test_a_stream_that_is_one_secret_after_the_other_goes_on() -> None:
    mask = Mask(["aaaa"])
    out = b"".join(mask.feed(b"a" * 65536) for _ in range(16))
    assert len(mask._held) < 2**19
    assert b"a" not in out


def test_the_pump_ends_with_the_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    pump = Pump(os.fdopen(reading, "rb"), (tmp_path / "log").open("ab"), ["hunter2"])
    os.write(writing, b"it is hun")
    os.write(writing, b"ter2\nhun")
    os.close(writing)
    pump.join()
    assert (tmp_path / "log").read_bytes() == b"it is ***\nhun"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_does_not_stop_the_task() -> None:
    reading, writing = os.pipe()
    with Path("/dev/full").open("wb", buffering=0) as log:
        pump = Pump(os.fdopen(reading, "rb"), log, ["hunter2"])
        # Far more than a pipe holds: all of it is taken only if somebody goes on reading.
        taken = sum(os.write(writing, b"x" * 65536) for _ in range(64))
        os.close(writing)
        pump.join()
    assert taken == 64 * 65536


def test_secrets_that_cannot_be_are_refused_where_they_stand() -> None:
    place = Location("job.yaml", 3, 4, "  A: env:X")
    with pytest.raises(UserError) as raised:
        secret_values(
            {"A": "env:X", "B": "env:Y", "C": "env:Z"},
            {"Y": " abc\n", "Z": "long enough"},
            lambda _: place,
        )
    missing, short = raised.value.findings
    assert (missing.id, missing.path, missing.location) == ("no-secret", "secrets.A", place)
    assert (short.id, short.path) == ("short-secret", "secrets.B")
    assert "abc" not in short.message + short.hint
    assert secret_values({"C": "env:Z"}, {"Z": "long enough"}) == {"C": "long enough"}


def test_a_long_secret_does_not_slow_the_log_down() -> None:
    """Counted in calls, as seconds are the machine's: one for each byte held a task up."""
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
