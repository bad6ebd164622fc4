"""Spans of time as people write them."""

from __future__ import annotations

import pytest

from fairway_core.documents import FieldError
from fairway_core.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("25s", 25), ("1.5h", 5400), ("30d", 2_592_000), ("36500d", 3_153_600_000)],
)
def test_what_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["36501d", "99999999999999999999h", f"{'9' * 400}d"])
def test_more_than_a_hundred_years_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="is longer than a hundred years") as refused:
        seconds_of(text)
    assert refused.value.hint == "write 36500d or less"


@pytest.mark.parametrize("value", ["0s", "10", "ten", "-5s", "1 h", None, True])
def test_what_is_none(value: object) -> None:
    with pytest.raises(FieldError, match="is not a span of time"):
        seconds_of(value)
