"""Metrics in logs: parsing of values, their order, and logs that grow, restart or are huge."""

import json
import math
import signal
import tracemalloc
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from running import MakeRun

from fairway_agent import metric_logs, process_limits
from fairway_agent.metric_logs import MetricLog
from fairway_core.findings import UserError
from fairway_runner.runs import metrics
from fairway_runner.runs.metrics import (
    Series,
    Values,
    all_values,
    compile_patterns,
    last_values,
    series,
)
from fairway_runner.runs.report import data
from fairway_runner.runs.report.page import page

LOSS = compile_patterns({"loss": r"loss[ =]([0-9.]+)"})
ANY = compile_patterns({"x": r"x=(\S+)"})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def values(line: bytes, patterns: metric_logs.Patterns = ANY) -> list[float]:
    return [value for _, value in metric_logs.values_in([line], patterns)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=3", [3.0]),
        ("x=-1.5e-3", [-0.0015]),
        ("x=1e-3.", [0.001]),
        ("x=0.5, x=0.25;", [0.5, 0.25]),
        ("x=nan", []),
        ("x=-inf", []),
        ("x=1e999", []),
        ("x=abc", []),
        ("x=", []),
        ("", []),
        ("y=1", []),
        ("x=\ud83d", []),
        ("épôque ☃ x=2", [2.0]),
        # Matched by a pattern of digits and points.
        ("loss 1e-3", [1e-3]),
        ("loss=2.5E+2", [250.0]),
        ("loss 0.5.", [0.5]),
        ("loss 7 epochs", [7.0]),
    ],
)
def test_metrics_parse_values_from_text(text: str, expected: list[float]) -> None:
    patterns = LOSS if text.startswith("loss") else ANY
    assert values(text.encode("utf-8", "surrogatepass"), patterns) == expected


def test_metrics_parse_lines_with_labels_alternatives_and_several_names() -> None:
    assert values(b"done", compile_patterns({"x": "x=([0-9]+)|done"})) == []
    patterns = compile_patterns({"loss": "^loss=([0-9.]+)"})
    for line in (b"[1,0]<stdout>: loss=0.5", b"[1,0]<stdout>:loss=0.5", b"[3]<stderr>: loss=0.5"):
        assert values(line, patterns) == [0.5]
    # Only Open MPI's labels are removed: a line may itself begin with brackets.
    assert values(b"[12] x", compile_patterns({"x": r"^\[([0-9]+)\]"})) == [12.0]
    both = compile_patterns({"b": r"b=(\d)", "a": r"a=(\d)"})
    found = metric_logs.values_in([b"a=1 b=2", b"", b"b=3 a=4 a=5"], both)
    assert found == [("b", 2.0), ("a", 1.0), ("b", 3.0), ("a", 4.0), ("a", 5.0)]


def test_metric_log_that_grows_is_read_once(log: Path) -> None:
    reader = MetricLog(log, LOSS)
    assert list(reader.read(ended=False)) == []
    with log.open("wb", buffering=0) as file:
        file.write(b"loss 3\nloss ")
        assert list(reader.read(ended=False)) == [("loss", 3.0)]
        assert reader.offset == len(b"loss 3\n")
        file.write(b"2")
        assert list(reader.read(ended=False)) == []
        file.write(b"5\rloss 1\r\nlos")
        assert list(reader.read(ended=False)) == [("loss", 25.0), ("loss", 1.0)]
        file.write(b"s 0")
        assert list(reader.read(ended=True)) == [("loss", 0.0)]
    assert list(reader.read()) == []


def test_metric_log_with_garbage_and_huge_lines_takes_little_memory(log: Path) -> None:
    with log.open("wb") as file:
        file.write(bytes(range(256)) * 1000 + b"\nloss 1\n")
        for _ in range(24):
            file.write(b"\0" * 2**20)  # 24 MiB without a newline
        file.write(b"\nloss 2\n")
    tracemalloc.start()
    found = list(MetricLog(log, LOSS).read())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [("loss", 1.0), ("loss", 2.0)]
    assert peak < 12 * 2**20


@pytest.mark.parametrize("size", [1, 7, 64])
def test_metric_log_values_do_not_depend_on_the_chunk_size(
    log: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    text = "".join(f"{'z' * (n % 50)} loss {n}\n" for n in range(200))
    log.write_text(text)
    whole = list(MetricLog(log, LOSS).read())
    assert [value for _, value in whole] == list(range(200))
    monkeypatch.setattr(metric_logs, "_CHUNK", 128 * size)
    assert list(MetricLog(log, LOSS).read()) == whole


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are searched."""
    found: list[bytes] = []
    original = metric_logs.values_in

    def searching(lines: Sequence[bytes], *more: Any, **which: Any) -> object:
        found.extend(lines)
        return original(lines, *more, **which)

    monkeypatch.setattr(metric_logs, "values_in", searching)
    return found


def test_metrics_of_a_long_log_are_searched_once(
    log: Path, monkeypatch: pytest.MonkeyPatch, searched: list[bytes]
) -> None:
    """Holds also for metrics without a value and for extremes. If the end of the log has all last
    values, only the end is searched."""
    monkeypatch.setattr(metric_logs, "_TAIL", 200)
    monkeypatch.setattr(metrics, "_WORTH", 5000)
    patterns = compile_patterns({"loss": "loss (-?[0-9]+)", "no": "no (1)"})
    log.write_text("".join(f"loss {500 - n}\n" for n in range(1000)) + "loss nan\nloss 7")
    assert last_values(log, {"loss": patterns["loss"]}) == {"loss": 7.0}
    assert len(searched) < 100
    assert last_values(log, patterns) == {"loss": 7.0}
    assert len(searched) > 1000
    searched.clear()
    assert last_values(log.with_name("none"), patterns) == {}
    assert last_values(log, patterns) == {"loss": 7.0}
    assert all_values(log, patterns) == {"loss": Values(7.0, -499.0, 500.0)}
    with log.open("a") as file:
        file.write("00\nloss inf\n")  # continues the last line
    assert last_values(log, patterns) == {"loss": math.inf}
    with log.open("a") as file:
        file.write("loss 8\nno 1\n")
    assert all_values(log, patterns) == {
        "loss": Values(8.0, -499.0, 700.0),
        "no": Values(1.0, 1.0, 1.0),
    }
    assert len(searched) < 100
    searched.clear()
    assert last_values(log, {"no": patterns["no"]}) == {"no": 1.0}
    assert len(searched) < 100
    assert all_values(log, LOSS)["loss"].lowest == 0.0  # another pattern has other values


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "[]",
        "{}",
        '{"patterns": {"x": "x=(.)"}, "offset": 5, "before": [5, 1], "values": {}}',
        '{"patterns": PATTERNS, "offset": -5, "before": BEFORE, "values": {"x": [9, 9, 9]}}',
        '{"patterns": PATTERNS, "offset": 1e99, "before": BEFORE, "values": {"x": [9, 9, 9]}}',
        '{"patterns": PATTERNS, "offset": 8, "before": [8, 0], "values": {"x": [9, 9, 9]}}',
        '{"patterns": PATTERNS, "offset": 8, "before": BEFORE, "values": {"x": [9, 9]}}',
        '{"patterns": PATTERNS, "offset": 8, "before": BEFORE, "values": [9]}',
    ],
)
def test_metrics_cache_that_is_damaged_or_of_another_log_is_ignored(log: Path, kept: str) -> None:
    log.write_text("x=1\nx=2\n")
    before = json.dumps([8, zlib.crc32(log.read_bytes())])
    kept = kept.replace("PATTERNS", json.dumps({"x": ANY["x"].pattern})).replace("BEFORE", before)
    log.with_name(".metrics.json").write_text(kept)
    assert all_values(log, ANY) == {"x": Values(2.0, 1.0, 2.0)}


def test_metrics_of_a_rewritten_log_are_read_again(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_WORTH", 4)
    for text in ("x=5\nx=6\n", "x=7\n", "x=8\nx=1\nx=2\n"):
        log.write_text(text)
        assert all_values(log, ANY)["x"].highest == {"5": 6.0, "7": 7.0, "8": 8.0}[text[2]]
    (cache := log.with_name(".metrics.json")).unlink()
    cache.mkdir()  # so that it cannot be written
    assert all_values(log, ANY) == {"x": Values(2.0, 1.0, 8.0)}
    assert [each.name for each in log.parent.iterdir() if each.is_file()] == ["log.txt"]


def test_metrics_series_is_thinned_out_evenly(log: Path) -> None:
    each = Series(most=10)
    for number in range(1000):
        each.add(float(number))
    assert len(each.points) <= 10
    assert each.count == 1000
    assert all(at == value + 1 for at, value in each.points_over(None))
    gaps = {b[0] - a[0] for a, b in zip(each.points, each.points[1:], strict=False)}
    assert len(gaps) == 1
    drawn = each.points_over(None)
    assert (drawn[0], drawn[-1]) == ((1, 0.0), (1000, 999.0))
    log.write_text("loss 3\nx=1\nloss 2\n")
    found = series(log, compile_patterns({"loss": "loss ([0-9])", "no": "no (1)"}))
    drawn = {name: each.points_over(None) for name, each in found.items()}
    assert drawn == {"loss": [(1, 3.0), (2, 2.0)]}


def _bytes(lines: list[bytes]) -> int:
    return sum(len(line) + 1 for line in lines)


class TestHugeLogs:
    """Reports on huge logs, of which a limited part is read."""

    LINES = 60_000

    @pytest.fixture(autouse=True)
    def _piece(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fairway_runner.runs.metrics.PIECE", 4096)

    def _written(self, log: Path, step: str) -> int:
        with log.open("w") as file:
            for number in range(self.LINES):
                file.write(f"{step} {number} loss {self.LINES - number}.0\n")
        return log.stat().st_size

    @pytest.mark.parametrize("step", ["step", "at"])
    def test_metrics_series_of_a_huge_log_is_sampled_from_first_to_last_value(
        self, log: Path, searched: list[bytes], step: str
    ) -> None:
        size, budget = self._written(log, step), 1 << 16
        [one] = series(log, LOSS, most=100, budget=budget).values()
        assert size > 16 * budget
        assert 0.5 * budget < _bytes(searched) <= budget
        assert one.is_sampled
        assert one.last == 1.0
        points = one.points_over("step" if step == "step" else None)
        # Without steps, the position of a value is an estimate.
        slack = 0 if step == "step" else 0.03 * self.LINES
        assert points == sorted(points)
        assert all(abs(at - (self.LINES - value)) <= 1 + slack for at, value in points)
        gaps = [b[0] - a[0] for a, b in pairwise(points)]
        assert max(gaps) < self.LINES / 10

    def test_metrics_series_within_the_budget_is_complete_except_in_very_long_lines(
        self, log: Path, searched: list[bytes]
    ) -> None:
        size = self._written(log, "at")
        [one] = series(log, LOSS, budget=size).values()
        assert (one.count, one.end, one.is_sampled) == (self.LINES, self.LINES - 1, False)
        assert _bytes(searched) >= size
        searched.clear()
        log.write_text("loss 3\n" + "x" * 200_000 + "\nloss 2\n" + "y" * 100_000 + "\nloss 1\n")
        [one] = series(log, LOSS, budget=1 << 15).values()
        assert (one.points[0], one.last) == ((0, 3.0), 1.0)
        assert _bytes(searched) <= 1 << 15

    def test_report_states_that_long_logs_were_read_in_part(
        self, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, searched: list[bytes]
    ) -> None:
        tasks = [{"log": "".join(f"loss {n}\n" for n in range(9000))}] * 2
        run = make_run("job-a", tasks, metrics={"loss": "loss ([0-9]+)"})
        assert "a part was read" not in page(run)
        monkeypatch.setattr(data, "_BUDGET", 1 << 15)
        monkeypatch.setattr(data, "_LEAST", 1 << 12)
        monkeypatch.setattr(metric_logs, "_TAIL", 1000)  # has the last values
        searched.clear()
        assert "Long logs were read in part." in page(run)
        assert _bytes(searched) < 1 << 16


def test_metrics_pattern_that_is_too_slow_is_stopped_and_named_in_any_thread(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 2^60 ways to divide the letters, too many to try."""
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.2)
    monkeypatch.setattr(metrics, "_SLOW", {})
    before = signal.getsignal(signal.SIGVTALRM)
    log.write_text("loss=1\n" + "a" * 60 + "!\nloss=2\n")
    slow = compile_patterns({"loss": r"loss=([0-9.]+)", "slow": r"((?:a+)+)$"})
    finding = refused(lambda: last_values(log, slow), "metric `slow`", 2)
    assert finding.message.endswith(": ((?:a+)+)$")
    # The signal handler and the timer are restored.
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert last_values(log, compile_patterns({"loss": r"loss=([0-9.]+)"})) == {"loss": 2.0}
    # Servers search in threads. Sound patterns still find their values there.
    monkeypatch.setattr(metrics, "_SLOW", {})
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            slow = pool.submit(last_values, log, compile_patterns({"slow": r"((?:a+)+)$"}))
            with pytest.raises(UserError, match="metric `slow`"):
                slow.result()
        sound = compile_patterns({"loss": r"loss=([0-9.]+)"})
        assert pool.submit(last_values, log, sound).result() == {"loss": 2.0}


@pytest.mark.integration
def test_metrics_pattern_that_was_stopped_is_not_searched_again(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each refresh of the run's page would take the entire limit and delay all others."""
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.2)
    monkeypatch.setattr(metrics, "_SLOW", {})
    begun: list[object] = []
    real = metric_logs.values_of
    monkeypatch.setattr(
        metric_logs, "values_of", lambda *given: begun.append(given) or real(*given)
    )
    for number in range(3):
        log.write_text("a" * 60 + f"!{number}\n")  # the log changes between searches
        with pytest.raises(UserError, match="metric `slow`"):
            last_values(log, compile_patterns({"slow": r"((?:a+)+)$"}))
    assert len(begun) == 1
    log.write_text("a" * 60 + "\n")
    refused(lambda: last_values(log, compile_patterns({"other": r"((?:a+)+)!$"})), "metric `other`")
    assert len(begun) == 2


def test_next_line_is_the_first_that_starts_at_or_after_the_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nlast")
    found = [metric_logs.next_line(log, start) for start in (0, 1, 3, 4, 5, 8, 9)]
    assert found == [0, 4, 4, 4, 8, 8, 12]
