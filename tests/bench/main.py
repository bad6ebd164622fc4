"""The benchmarks: what each compares, and the ratio that it must not pass."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import batch
import jobs
import kubernetes
import review
import slurm
import ssh
import synthesis
import web

if TYPE_CHECKING:
    from measure import Benchmark

BENCHMARKS = [
    *synthesis.BENCHMARKS,
    *jobs.BENCHMARKS,
    *review.BENCHMARKS,
    *batch.BENCHMARKS,
    *slurm.BENCHMARKS,
    *kubernetes.BENCHMARKS,
    *ssh.BENCHMARKS,
    *web.BENCHMARKS,
]

_LINE = "{:<36} {:>10} {:>10} {:>12} {:>12}   {}"


def main() -> int:
    """Runs the benchmarks whose names contain one of the arguments, or all.

    Each figure is printed as it comes. Returns 1 if a limit was exceeded, 2 if no benchmark has
    such a name. `--help` lists the names only.
    """
    names = "\n  ".join(benchmark.name for benchmark in BENCHMARKS)
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(f"bin/bench [NAME ...]\n\n{__doc__}\nA NAME is a part of:\n  {names}")
        return 0
    wanted = [b for b in BENCHMARKS if not sys.argv[1:] or any(a in b.name for a in sys.argv[1:])]
    if not wanted:
        print(f"error: no benchmark has such a name; there are:\n  {names}", file=sys.stderr)
        return 2
    print(f"medians on {os.cpu_count()} cores; times in seconds, memory in MiB")
    print(_LINE.format("BENCHMARK", "OURS", "THEIRS", "RESULT", "LIMIT", "AGAINST"), flush=True)
    over = [benchmark.name for benchmark in wanted if not _within(benchmark)]
    if over:
        print(f"over the limit: {', '.join(over)}")
    return 1 if over else 0


def _within(benchmark: Benchmark) -> bool:
    """Runs the benchmark, prints its line, and returns True if it is within its limit."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"  # all of it is a job's code: clusters are beside it
        project.mkdir()
        pair = benchmark.measure(project)
    result = benchmark.result(pair)
    within = result <= benchmark.limit
    line = _LINE.format(
        benchmark.name,
        f"{pair.ours:.3g}",
        f"{pair.reference:.3g}",
        f"{result:.2f} {benchmark.unit}",
        f"{benchmark.limit:g} {benchmark.unit}",
        benchmark.against + ("" if within else "   OVER"),
    )
    print(line, flush=True)
    return within


if __name__ == "__main__":
    sys.exit(main())
