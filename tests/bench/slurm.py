"""Time until runs reach a Slurm cluster and start there, against Slurm's own commands."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from measure import BIN, PYTHON, Benchmark, Command, Pair, seconds, side_by_side

from fairway_simulator.slurm import SlurmCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAIRWAY = BIN / "fairway"
_TARGET = ("--target", "slurm-sim")
_PATIENCE = 60.0  # seconds; only a hang takes this long

_SWEEP = """\
name: sweep
template: plain
command: 'true {{ params.x }}'
sweep: {points: [{grid: {x: {start: 0, stop: 1000, step: 1}}}]}
"""
_TWO_NODES = """\
name: two
template: every-node
nodes: 2
command: echo >FIFO
"""


@contextmanager
def _cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Yields a cluster that `fairway` finds from the folder as its only target."""
    with SlurmCluster(nodes=3) as cluster:
        (folder / "fairway.yaml").write_text(json.dumps({"targets": [cluster.target]}))
        yield cluster


def _empty(cluster: SlurmCluster) -> None:
    """Ends all jobs and waits until none is left."""
    cluster.run("scancel", f"--user={cluster.login.user}")
    while cluster.run("squeue", "-h"):
        time.sleep(0.05)


def _sweep(folder: Path) -> Pair:
    """Measures submitting 1,000 points, against a dry run and submitting a script that does
    nothing."""
    (folder / "sweep.yaml").write_text(_SWEEP)
    (folder / "bare.sh").write_text("#!/bin/bash\ntrue\n")
    with _cluster(folder) as cluster:
        words = [str(FAIRWAY), "submit", str(folder / "sweep.yaml"), *_TARGET]
        ours = Command(words, cluster.environment, folder)
        bare = f"ssh -F {cluster.login.ssh_config} {cluster.alias} sbatch --array=1-1000"
        look = shlex.join([*words, "--dry-run"])
        both = f"{look} && {bare} {folder}/bare.sh"
        theirs = Command(["sh", "-c", both], cluster.environment, folder)

        def figure(command: Command) -> float:
            spent = seconds(command)
            _empty(cluster)
            return spent

        return side_by_side(figure, ours, theirs, runs=3)


def _launch(folder: Path) -> Pair:
    """Measures the time from submission to Slurm until the program runs on both nodes, against a
    bare script that starts Python once before it, because Python's start depends on the load."""
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    (folder / "two.yaml").write_text(_TWO_NODES.replace("FIFO", str(fifo)))
    with _cluster(folder) as cluster:
        pairs = []
        for _ in range(4):
            ours = _ours(folder, cluster, reading)
            _empty(cluster)
            pairs.append((ours, _theirs(cluster, fifo, reading)))
    os.close(reading)
    return Pair.of(pairs[1:])


def _ours(folder: Path, cluster: SlurmCluster, reading: int) -> float:
    words = [str(FAIRWAY), "submit", str(folder / "two.yaml"), *_TARGET, "--json"]
    process = subprocess.Popen(
        words, cwd=folder, env={**os.environ, **cluster.environment}, stdout=subprocess.PIPE
    )
    ended = _both(reading)
    out, _ = process.communicate()
    assert cluster.shared is not None
    run: str = json.loads(out)["run_id"]
    begun = (cluster.shared / "runs" / run / "batch-0.sh").stat().st_mtime
    return ended - begun


def _theirs(cluster: SlurmCluster, fifo: Path, reading: int) -> float:
    script = fifo.with_name("bare-two.sh")
    script.write_text(
        f"#!/bin/bash\n{PYTHON} -c 'import json, subprocess'\nsrun sh -c 'echo >{fifo}'\n"
    )
    begun = time.time()
    cluster.run("sbatch", "-N2", "-o", "/dev/null", str(script))
    return _both(reading) - begun


def _both(reading: int) -> float:
    """Returns the time at which both nodes have reported that their program runs."""
    said = b""
    while said.count(b"\n") < 2:
        assert select.select([reading], [], [], _PATIENCE)[0], "the program did not start"
        said += os.read(reading, 64)
    return time.time()


BENCHMARKS = [
    Benchmark("Slurm: submit 1,000 points", "--dry-run, and sbatch over ssh", 1.5, _sweep),
    Benchmark("Slurm: start on 2 nodes", "sbatch of Python, then srun", 4.0, _launch),
]
