"""The benchmarks: what each compares, and the ratio that it must not pass."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import batch
import jobs
import review
import slurm
import ssh
import synthesis
from rich.console import Console
from rich.table import Table

BENCHMARKS = [
    *synthesis.BENCHMARKS,
    *jobs.BENCHMARKS,
    *review.BENCHMARKS,
    *batch.BENCHMARKS,
    *slurm.BENCHMARKS,
    *ssh.BENCHMARKS,
]


def main() -> int:
    """Runs the benchmarks whose names contain one of the arguments, or all."""
    wanted = [b for b in BENCHMARKS if not sys.argv[1:] or any(a in b.name for a in sys.argv[1:])]
    table = Table("BENCHMARK", "AGAINST", "OURS", "THEIRS", "RESULT", "LIMIT", box=None)
    passed = True
    for benchmark in wanted:
        with tempfile.TemporaryDirectory() as folder:
            pair = benchmark.measure(Path(folder))
        result = benchmark.result(pair)
        within = result <= benchmark.limit
        passed = passed and within
        table.add_row(
            benchmark.name,
            benchmark.against,
            f"{pair.ours:.3g}",
            f"{pair.reference:.3g}",
            f"[{'green' if within else 'red'}]{result:.2f} {benchmark.unit}[/]",
            f"{benchmark.limit:g} {benchmark.unit}",
        )
    print(f"medians on {os.cpu_count()} cores; times in seconds, memory in MiB")
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
