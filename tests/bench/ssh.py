"""Number of commands that a plain cluster's engine sends over ssh, to a real sshd on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from measure import BIN, Benchmark, Command, Pair, seconds

from fairway_runner.runs.store import RunStore
from fairway_simulator.ssh.cluster import SshCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAIRWAY = BIN / "fairway"
_RUNS = 500

# Counts commands on the host, without the connection itself.
_COUNTING = """#!/bin/sh
case " $* " in *" -O "* | *" -M "*) ;; *) echo one >>{log} ;; esac
exec {ssh} "$@"
"""


@contextmanager
def _many_runs(folder: Path) -> Iterator[SshCluster]:
    """Yields a cluster with many runs that are active according to this machine's records."""
    with SshCluster(folder / "cluster", ["n1"]) as cluster:
        os.environ.update(cluster.environment)
        project = json.dumps({"targets": [cluster.target()]})
        (folder / "fairway.yaml").write_text(project, encoding="utf-8")
        job = folder / "job.yaml"
        job.write_text('{name: first, template: plain, command: "true"}')
        subprocess.run(
            [FAIRWAY, "submit", job, "-t", "pair", "--run-id", "first", "--watch", "--quiet"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        _copy_runs(folder, cluster)
        yield cluster


def _copy_runs(folder: Path, cluster: SshCluster) -> None:
    store = RunStore(folder / ".fairway")
    first = store.find("first")
    for number in range(_RUNS - 1):
        name = f"run-{number}"
        shutil.copytree(cluster.shared / "runs" / "first", cluster.shared / "runs" / name)
        record = replace(first.record, id=name)  # created at one time, or it was another run
        files = {each: (first.folder / each).read_text() for each in ("target.json", "engine.json")}
        run, lock = store.create(record, files)
        (run.folder / "state.json").write_text('{"state": "running", "tasks": {}}')
        os.close(lock)


def _commands(folder: Path) -> Pair:
    """Counts the commands that the host gets when all runs are listed once."""
    log, programs = folder / "ssh.log", folder / "programs"
    programs.mkdir()
    counting = programs / "ssh"
    counting.write_text(_COUNTING.format(log=log, ssh=shutil.which("ssh")))
    counting.chmod(0o755)
    with _many_runs(folder) as cluster:
        environment = {**cluster.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
        seconds(Command([FAIRWAY, "list"], environment, folder))
    count = len(log.read_text().splitlines())
    states = [run.state for run in RunStore(folder / ".fairway").all()]
    assert states == ["succeeded"] * _RUNS, "every run was looked at"
    return Pair(count, 1, count)


BENCHMARKS = [
    Benchmark(f"list of {_RUNS} runs over ssh, commands", "one", 1.0, _commands),
]
