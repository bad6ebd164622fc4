"""Output of `bin/bench`, without measuring anything."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.integration

Bench = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import main
from measure import Benchmark, Pair

def measure(folder):
    print("measured")
    return Pair(2.0, 1.0, 2.0)

main.BENCHMARKS[:] = [
    Benchmark("slow", "a twin", 1.5, measure),
    Benchmark("quick", "a twin", 2.5, measure),
]
sys.exit(main.main())
"""


@pytest.fixture
def bench(repository: Path) -> Bench:
    """Returns the program with two benchmarks, of which one is over its limit."""
    script = PROGRAM.format(folder=str(repository / "tests/bench"))
    return lambda *names: finished([sys.executable, "-c", script, *names])


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ([], 1, ["measured", "slow", "measured", "quick", "over"]),
        (["quick"], 0, ["measured", "quick"]),
    ],
)
def test_bench_measures_the_named_benchmarks_and_fails_over_a_limit(
    bench: Bench, words: list[str], code: int, printed: list[str]
) -> None:
    done = bench(*words)
    assert done.returncode == code, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == printed


@pytest.mark.parametrize(("word", "code"), [("qick", 2), ("--help", 0), ("-h", 0)])
def test_bench_lists_names_on_help_or_a_typo_without_measuring(
    bench: Bench, word: str, code: int
) -> None:
    """Although `fairway --help` is the name of a benchmark too."""
    done = bench(word)
    assert done.returncode == code, done.stderr
    assert "\n  slow\n  quick\n" in done.stdout + done.stderr
    assert "measured" not in done.stdout
