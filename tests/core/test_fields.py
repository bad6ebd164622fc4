"""Fields of files: durations with units, and valid names of images."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_core.documents import FieldError
from fairway_core.light_fields import is_image, seconds_of

DIGEST = "sha256:" + "0a" * 32
TAKEN = (
    *("a", "python:3.12-slim", "team/train:1", "localhost:5000/train", f"ubuntu@{DIGEST}"),
    "Registry.example:443/a/b__c/d-e.f:V1_x",
    f"nvcr.io/nvidia/pytorch:24.10-py3@{DIGEST}",
)
REFUSED = (
    *("", "Train:1", "train:", "train:a b", ":1", "/train", "train/", "a//b", "-train", "a_-b"),
    *("https://nvcr.io/nvidia/pytorch", "docker://train", "train@sha256:12", "train@1"),
    *("${IMAGE}", "train\n", "tr\u00e4in", f"a:{'1' * 129}", "a" * 256),
)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@tried
@given(st.sampled_from(sorted(UNITS)), st.decimals("0.01", 36500, places=2))
def test_duration_with_number_and_unit_is_parsed(unit: str, number: Decimal) -> None:
    assert seconds_of(f"{number.normalize():f}{unit}") == pytest.approx(float(number) * UNITS[unit])


@pytest.mark.parametrize("text", ["36501d", "99999999999999999999h", f"{'9' * 400}d"])
def test_duration_over_a_hundred_years_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="is longer than a hundred years") as refused:
        seconds_of(text)
    assert refused.value.hint == "write 36500d or less"


@pytest.mark.parametrize("value", ["0s", "10", "ten", "-5s", "1 h", None, True])
def test_duration_refuses_values_that_are_not_a_positive_time(value: object) -> None:
    with pytest.raises(FieldError, match="is not a span of time"):
        seconds_of(value)


@pytest.mark.parametrize("text", [*TAKEN, *REFUSED])
def test_image_name_must_be_valid_for_a_registry(text: str) -> None:
    assert is_image(text) is (text in TAKEN)
