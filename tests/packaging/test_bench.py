"""`bin/bench`: what it prints, without measuring anything."""

import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.integration

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


def _bench(repository: Path, *names: str) -> subprocess.CompletedProcess[str]:
    script = PROGRAM.format(folder=str(repository / "tests/bench"))
    return finished([sys.executable, "-c", script, *names])


def test_bench_prints_each_figure_and_names_those_over_the_limit(repository: Path) -> None:
    done = _bench(repository)
    assert done.returncode == 1, done.stderr
    lines = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert lines == ["measured", "slow", "measured", "quick", "over"]
    assert done.stdout.splitlines()[-1] == "over the limit: slow"


def test_a_benchmark_within_its_limit(repository: Path) -> None:
    done = _bench(repository, "quick")
    assert done.returncode == 0, done.stderr
    assert "slow" not in done.stdout


def test_a_name_that_no_benchmark_has(repository: Path) -> None:
    done = _bench(repository, "qick")
    assert done.returncode == 2
    assert "there are:\n  slow\n  quick" in done.stderr


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_measures_nothing(repository: Path, word: str) -> None:
    """Although `fairway --help` is the name of a benchmark too."""
    done = _bench(repository, word)
    assert done.returncode == 0, done.stderr
    assert "bin/bench [NAME ...]" in done.stdout
    assert "\n  slow\n  quick\n" in done.stdout
    assert "measured" not in done.stdout
