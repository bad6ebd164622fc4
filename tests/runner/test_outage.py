"""Tries of a request to a target that does not answer, and the pauses between them."""

from itertools import pairwise

import pytest
from clocks import Clock

from fairway_runner.engines import outage
from fairway_runner.engines.outage import Tries


def test_tries_of_a_day_pause_up_to_a_limit_and_end_at_their_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each pause is at most twice as long as the last one, and those of two programs differ."""
    clock = Clock.of(monkeypatch, outage)
    tries, slept = Tries(80_000.0, clock=clock.monotonic), [0.0]
    while tries.pause():
        slept.append(clock.slept)
    pauses = [after - before for before, after in pairwise(slept)]
    assert clock.slept == pytest.approx(80_000)
    assert len(pauses) > 80_000 / 15
    assert all(0.25 * 2**index <= each <= 0.5 * 2**index for index, each in enumerate(pauses[:5]))
    assert max(pauses) <= 15
    assert len({round(each, 1) for each in pauses[5:-1]}) > 10
