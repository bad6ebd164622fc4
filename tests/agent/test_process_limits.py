"""The limit on the processor time of patterns and templates."""

import signal

import pytest

from fairway_agent import process_limits


class _Slow:
    def __del__(self) -> None:
        while True:
            pass


def _run_for_ever() -> None:
    with process_limits.cpu_limit():
        _Slow()
        while True:
            pass


def test_cpu_limit_is_raised_again_where_a_finalizer_swallows_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.05)
    with pytest.raises(process_limits.OverLimit):
        _run_for_ever()
    assert capfd.readouterr().err == ""


@pytest.mark.integration
def test_cpu_limit_begins_anew_for_each_prepared_use(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.05)
    with process_limits.prepared():
        for _ in range(2):
            with pytest.raises(process_limits.OverLimit):
                _run_for_ever()
            assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
            with process_limits.cpu_limit():
                assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0.0
    assert signal.getsignal(signal.SIGVTALRM) == before
