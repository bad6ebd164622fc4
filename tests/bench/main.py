"""The benchmarks: what each compares, and the ratio that it must not pass."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Command, Pair, peak_mebibytes, seconds, side_by_side
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
PYTHON = BIN / "python"


@dataclass(frozen=True)
class Benchmark:
    """One comparison; `limit` is of the ratio, or of the difference in seconds (`s more`)."""

    name: str
    against: str
    limit: float
    measure: Callable[[Path], Pair]
    unit: str = "×"


def _synthesis(folder: Path) -> tuple[Command, Command]:
    empty = folder / "empty_app.py"
    empty.write_text(
        "from cdktf import App\n"
        "import pydantic, ruamel.yaml, jinja2\n"
        f"App(outdir={str(folder / 'empty')!r}).synth()\n"
    )
    environment = {"FAIRWAY_ENVIRONMENT": "demo", "CDKTF_OUTDIR": str(folder / "demo")}
    ours = Command([PYTHON, "-m", "fairway_stacks.app"], environment)
    return ours, Command([PYTHON, empty])


def _synthesis_time(folder: Path) -> Pair:
    return side_by_side(seconds, *_synthesis(folder), runs=7)


def _synthesis_memory(folder: Path) -> Pair:
    return side_by_side(peak_mebibytes, *_synthesis(folder), runs=3)


# One of each kind of cluster in turn.
_KINDS = (
    "{engine: ssh, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}",
    "{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}",
    "{engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 8}, mounts: [data]}",
)


def _clusters(folder: Path, count: int) -> Command:
    """The synthesis of an environment with that many clusters."""
    file = folder / f"{count}.yaml"
    clusters = "".join(f"  c{i}: {_KINDS[i % len(_KINDS)]}\n" for i in range(count))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu"
    file.write_text(
        f"name: many\nlocation: southcentralus\naccess: {{ssh_keys: [{key}]}}\n"
        f"filesystems: {{data: {{kind: nfs_server, path: /data}}}}\nclusters:\n{clusters}"
    )
    outdir = folder / f"out-{count}"
    environment = {"FAIRWAY_ENVIRONMENT": str(file), "CDKTF_OUTDIR": str(outdir)}
    return Command([PYTHON, "-m", "fairway_stacks.app"], environment)


def _seconds_a_resource(command: Command) -> float:
    spent = seconds(command)
    assert command.environment is not None
    stacks = Path(command.environment["CDKTF_OUTDIR"], "stacks").glob("*/cdk.tf.json")
    kinds = [json.loads(stack.read_text())["resource"].values() for stack in stacks]
    return spent / sum(len(instances) for named in kinds for instances in named)


def _synthesis_growth(folder: Path) -> Pair:
    many, few = _clusters(folder, 100), _clusters(folder, 10)
    return side_by_side(_seconds_a_resource, many, few, runs=3)


def _start(option: str) -> Callable[[Path], Pair]:
    def measure(_folder: Path) -> Pair:
        ours = Command([BIN / "fairway", option])
        return side_by_side(seconds, ours, Command([PYTHON, "-c", "import typer"]), runs=15)

    return measure


def _no_op(folder: Path) -> Pair:
    job = folder / "job.yaml"
    job.write_text('name: no-op\nprocesses_per_node: 2\ncommand: "true"\n')
    ours = Command([BIN / "fairway", "submit", job, "--watch"], directory=folder)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    bare = Command([BIN / "mpirun", "--oversubscribe", "-np", "2", "true"], root)
    return side_by_side(seconds, ours, bare, runs=7)


BENCHMARKS = [
    Benchmark("synthesis of the demo, time", "an empty cdktf app", 1.5, _synthesis_time),
    Benchmark("synthesis of the demo, memory", "an empty cdktf app", 1.3, _synthesis_memory),
    Benchmark("synthesis a resource, 100 clusters", "10 clusters", 1.2, _synthesis_growth),
    Benchmark("fairway --version", 'python -c "import typer"', 1.5, _start("--version")),
    Benchmark("fairway --help", 'python -c "import typer"', 3.0, _start("--help")),
    Benchmark("submit --watch of a no-op", "bare mpirun", 1.0, _no_op, "s more"),
]


def main() -> int:
    """Runs the benchmarks whose names contain one of the arguments, or all."""
    wanted = [b for b in BENCHMARKS if not sys.argv[1:] or any(a in b.name for a in sys.argv[1:])]
    table = Table("BENCHMARK", "AGAINST", "OURS", "THEIRS", "RESULT", "LIMIT", box=None)
    passed = True
    for benchmark in wanted:
        with tempfile.TemporaryDirectory() as folder:
            pair = benchmark.measure(Path(folder))
        result = pair.ours - pair.reference if benchmark.unit == "s more" else pair.ratio
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
