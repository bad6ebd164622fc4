"""Time and memory of turning an environment into Terraform."""

from __future__ import annotations

import json
from pathlib import Path

from measure import (
    PYTHON,
    Benchmark,
    Command,
    Pair,
    cpu_seconds,
    peak_mebibytes,
    seconds,
    side_by_side,
)


def _synthesis(folder: Path) -> tuple[Command, Command]:
    empty = folder / "empty_stacks.py"
    empty.write_text(
        "import fairway_constructs as az; from pydantic import BaseModel\n"
        f"app = az.App(outdir={str(folder / 'empty')!r})\n"
        "stacks = [az.Stack(app, role) for role in ('network', 'data', 'compute')]\n"
        "app.synth()\n"
    )
    environment = {"FAIRWAY_ENVIRONMENT": "demo", "CDKTF_OUTDIR": str(folder / "demo")}
    ours = Command([PYTHON, "-m", "fairway_cli.entry", "synth"], environment)
    return ours, Command([PYTHON, empty])


def _synthesis_time(folder: Path) -> Pair:
    return side_by_side(cpu_seconds, *_synthesis(folder), runs=7)


def _synthesis_memory(folder: Path) -> Pair:
    return side_by_side(peak_mebibytes, *_synthesis(folder), runs=3)


# One of each kind of cluster in turn.
_KINDS = (
    "{engine: ssh, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}",
    "{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}",
    "{engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 8}, mounts: [data]}",
)


def _clusters(folder: Path, count: int) -> Command:
    """Measures the synthesis of an environment with this number of clusters."""
    file = folder / f"{count}.yaml"
    clusters = "".join(f"  c{i}: {_KINDS[i % len(_KINDS)]}\n" for i in range(count))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu"
    file.write_text(
        f"name: many\nlocation: southcentralus\naccess: {{ssh_keys: [{key}]}}\n"
        f"filesystems: {{data: {{kind: nfs_server, path: /data}}}}\nclusters:\n{clusters}"
    )
    outdir = folder / f"out-{count}"
    environment = {"FAIRWAY_ENVIRONMENT": str(file), "CDKTF_OUTDIR": str(outdir)}
    return Command([PYTHON, "-m", "fairway_cli.entry", "synth"], environment)


def _seconds_a_resource(command: Command) -> float:
    spent = seconds(command)
    assert command.environment is not None
    stacks = Path(command.environment["CDKTF_OUTDIR"], "stacks").glob("*/cdk.tf.json")
    kinds = [json.loads(stack.read_text())["resource"].values() for stack in stacks]
    return spent / sum(len(instances) for named in kinds for instances in named)


def _synthesis_growth(folder: Path) -> Pair:
    many, few = _clusters(folder, 100), _clusters(folder, 10)
    return side_by_side(_seconds_a_resource, many, few, runs=3)


BENCHMARKS = [
    Benchmark("synthesis of the demo, CPU time", "three empty stacks", 1.5, _synthesis_time),
    Benchmark("synthesis of the demo, memory", "three empty stacks", 1.15, _synthesis_memory),
    Benchmark("synthesis a resource, 100 clusters", "10 clusters", 1.2, _synthesis_growth),
]
