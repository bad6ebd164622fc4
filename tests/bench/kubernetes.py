"""Time to a run's first line from a Kubernetes cluster, against kubectl's own commands, and the
requests of a large sweep to its API server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from measure import BIN, Benchmark, Command, Pair, seconds

from fairway_simulator.kubernetes import KubernetesCluster, __main__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FAIRWAY = BIN / "fairway"
_RUNS = 4
_POINTS = 5_000
_LINE = b"begun\n"

# Its only pod at a time fits no node, so that only the submission is counted.
_SWEEP = {
    "name": "sweep",
    "template": "plain",
    "command": "true {{ params.x }}",
    "sweep": {
        "max_parallel": 1,
        "points": [{"grid": {"x": {"start": 0, "stop": _POINTS, "step": 1}}}],
    },
}


@contextmanager
def _cluster(folder: Path) -> Iterator[KubernetesCluster]:
    """Yields a cluster that `fairway` finds from the folder, as a target with nodes and without."""
    beside = folder.parent / "cluster"
    with KubernetesCluster(beside, nodes=1, images=("sim*", "python*")) as cluster:
        __main__.prepare(cluster)
        __main__.publish(cluster, folder)
        target = __main__.target().record()
        nowhere = {**target["kubernetes"], "selector": {"agentpool": "none"}}
        targets = [target, {**target, "name": "nowhere", "kubernetes": nowhere}]
        (folder / "fairway.yaml").write_text(json.dumps({"targets": targets}))
        yield cluster


def _first_line(folder: Path) -> Pair:
    """Measures the time until `--watch` prints a job's line, against a dry run and kubectl's own
    commands, in turn. The first round compiles modules and is not counted."""
    words = [str(FAIRWAY), "submit", str(folder / "one.yaml"), "--target", __main__.target().name]
    (folder / "one.yaml").write_text('{name: one, template: plain, command: "echo begun"}')
    pairs = []
    with _cluster(folder) as cluster:
        for number in range(_RUNS + 1):
            ours = _until_line([*words, "--watch"], {}, folder)
            job = folder / f"bare-{number}.json"
            job.write_text(json.dumps(_bare(f"bare-{number}")))
            # The stand-in cannot follow logs, and kubectl ends at once if there is no log yet.
            follow = f"until kubectl logs job/bare-{number} | grep begun; do :; done"
            look = shlex.join([*map(str, words), "--dry-run"])
            bare = ["sh", "-c", f"{look} >&2 && kubectl create -f {job} >&2 && {follow}"]
            pairs.append((ours, _until_line(bare, cluster.environment, folder)))
    return Pair.of(pairs[1:])


def _bare(name: str) -> dict[str, object]:
    """Returns a Job that prints the same line, with an image that the node has."""
    container = {"name": "task", "image": "sim:1", "command": ["sh", "-c", "echo begun"]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}},
    }


def _until_line(words: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> float:
    """Returns the seconds until the command prints the line, and waits for its end."""
    path = f"{BIN}:{os.environ['PATH']}"
    begun = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        found = next((True for line in process.stdout if line.endswith(_LINE)), False)
        spent = time.perf_counter() - begun
        process.communicate()
    assert found, f"{words} did not print the line"
    return spent


def _sweep_requests(folder: Path) -> Pair:
    """Counts the POST requests of a sweep, which create two objects: its Job, and the
    controller's."""
    (folder / "sweep.yaml").write_text(json.dumps(_SWEEP))
    with _cluster(folder) as cluster:
        before = cluster.faults.requests["POST"]
        words = [str(FAIRWAY), "submit", str(folder / "sweep.yaml"), "--target", "nowhere", "--yes"]
        seconds(Command(words, directory=folder))
        requests = cluster.faults.requests["POST"] - before
        jobs = json.loads(cluster.kubectl("get", "jobs", "-o", "json"))["items"]
    completions = sorted(job["spec"]["completions"] for job in jobs)
    assert completions == [1, _POINTS], "each point is an index of one Job"
    return Pair(requests, 2, requests / 2)


BENCHMARKS = [
    Benchmark(
        "Kubernetes: submit to first line",
        "--dry-run, kubectl create, logs",
        3.0,
        _first_line,
    ),
    Benchmark(
        f"Kubernetes: {_POINTS:,} points, requests", "a Job, a controller", 1.0, _sweep_requests
    ),
]
