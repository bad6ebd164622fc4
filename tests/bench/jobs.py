"""Time that the runner takes to start, check a job, list runs and work through a sweep."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from measure import (
    BIN,
    PYTHON,
    Benchmark,
    Command,
    Pair,
    cpu_seconds,
    peak_mebibytes,
    seconds,
    side_by_side,
)

from fairway_agent.sampler import sampler
from fairway_runner.runs.records import RunRecord
from fairway_runner.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAIRWAY = BIN / "fairway"
_IMPORT_TYPER = Command([PYTHON, "-c", "import typer"])
_ROOT_MAY_LAUNCH = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _start(option: str) -> Callable[[Path], Pair]:
    def measure(_folder: Path) -> Pair:
        return side_by_side(seconds, Command([FAIRWAY, option]), _IMPORT_TYPER, runs=15)

    return measure


def _no_op(folder: Path) -> Pair:
    """Measures a no-op job, against checking the job and launching its program."""
    job = folder / "job.yaml"
    job.write_text('name: no-op\nprocesses_per_node: 2\ncommand: "true"\n')
    ours = Command([FAIRWAY, "submit", job, "--watch"], directory=folder)
    bare = _after_a_look(job, f"{BIN}/mpirun --oversubscribe -np 2 true", folder)
    return side_by_side(seconds, ours, bare, runs=7)


def _after_a_look(job: Path, bare: str, folder: Path) -> Command:
    """Returns a command that does a submission's dry run, then runs the bare command in a shell."""
    look = shlex.join([str(FAIRWAY), "submit", str(job), "--dry-run"])
    return Command(["bash", "-c", f"{look} && {bare}"], _ROOT_MAY_LAUNCH, folder)


def _sweep_of(folder: Path, count: int) -> Path:
    job = folder / f"sweep-{count}.yaml"
    job.write_text(
        "name: sweep\ncommand: 'true {{ params.x }}'\nsweep:\n  points:\n"
        f"    - grid: {{x: {{start: 0, stop: {count}, step: 1}}}}\n"
    )
    return job


def _dry_run(folder: Path, count: int) -> Command:
    """Returns a dry run of many tasks: points, rendering and validation, without writing."""
    return Command([FAIRWAY, "submit", _sweep_of(folder, count), "--dry-run"], directory=folder)


def _many_tasks(folder: Path) -> Pair:
    return side_by_side(cpu_seconds, _dry_run(folder, 10_000), _IMPORT_TYPER, runs=3)


def _many_tasks_growth(folder: Path) -> Pair:
    """Measures processor time per task at 10,000 against 1,000 tasks, without the program's start:
    the minimum of some rounds, as a difference of two figures doubles their noise."""
    commands = [_dry_run(folder, count) for count in (1, 1_000, 10_000)]
    rounds = [[cpu_seconds(each) for each in commands] for _ in range(5)]
    begin, few, many = (min(figures) for figures in zip(*rounds, strict=True))
    ours, reference = (many - begin) / 10_000, (few - begin) / 1_000
    return Pair(ours, reference, ours / reference)


def _many_tasks_memory(folder: Path) -> Pair:
    return side_by_side(peak_mebibytes, _dry_run(folder, 10_000), Command(["true"]), runs=1)


def _list(folder: Path) -> Pair:
    store = RunStore(folder / ".fairway")
    for index in range(1_000):
        record = RunRecord(f"run-{index:06}", "run", "local", time.time(), 1, "job.yaml", "0")
        run, lock = store.create(record, {})
        (run.folder / "state.json").write_text('{"state": "succeeded", "tasks": {}}')
        os.close(lock)
    ours = Command([FAIRWAY, "list"], directory=folder)
    return side_by_side(seconds, ours, Command([FAIRWAY, "--help"]), runs=7)


def _sweep(folder: Path) -> Pair:
    """Measures 200 no-op tasks, against a dry run and `xargs -P` over their scripts. The minimum of
    each counts, as other load slows many programs more than one."""
    job = _sweep_of(folder, 200)
    ours = Command([FAIRWAY, "submit", job, "--watch"], directory=folder)
    spent = seconds(ours)
    (run,) = (folder / ".fairway/runs").glob("sweep-*")
    contract = f"""
        export FAIRWAY_SCRATCH_DIR=$(mktemp -d) FAIRWAY_HOSTFILE={run}/tasks/0/hosts
        export FAIRWAY_RUN={run.name} FAIRWAY_TASK=0 FAIRWAY_NODES=1
        export FAIRWAY_PROCESSES_PER_NODE=1 FAIRWAY_WORLD_SIZE=1
        export FAIRWAY_MPI_ARGS="--bind-to none" OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
        export PATH={BIN}:$PATH
        exec bash "$1/launch.sh"
    """
    (folder / "one.sh").write_text(contract)
    several = f"ls -d {run}/tasks/* | xargs -P {os.cpu_count()} -I{{}} bash {folder}/one.sh {{}}"
    theirs = _after_a_look(job, several, folder)
    rounds = [(seconds(theirs), seconds(ours)) for _ in range(2)]
    best = min(spent, *(figures[1] for figures in rounds))
    reference = min(figures[0] for figures in rounds)
    return Pair(best, reference, best / reference)


def _sampler(folder: Path) -> Pair:
    """Measures processor time of one sample of this machine, with the start shared among forty,
    against the ten seconds between two samples."""
    process = Command(sampler(folder, 0.05)).start()
    taken = 0
    while taken < 40:
        time.sleep(0.1)
        taken = sum(file.read_text().count("\n") for file in folder.glob("figures/*"))
    process.terminate()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    each = (used.ru_utime + used.ru_stime) / taken
    return Pair(each, 10.0, each / 10.0)


BENCHMARKS = [
    Benchmark("fairway --version", 'python -c "import typer"', 1.5, _start("--version")),
    Benchmark("fairway --help", 'python -c "import typer"', 3.0, _start("--help")),
    Benchmark("submit --watch of a no-op", "--dry-run, and mpirun", 2.0, _no_op),
    Benchmark("10,000 tasks looked at, CPU time", 'python -c "import typer"', 35.0, _many_tasks),
    Benchmark("10,000 tasks looked at, CPU each", "each of 1,000", 1.2, _many_tasks_growth),
    Benchmark("10,000 tasks looked at, memory", "true", 200, _many_tasks_memory, "MiB"),
    Benchmark("a sample of a node, CPU", "10 s of a core", 0.01, _sampler),
    Benchmark("list of 1,000 runs", "fairway --help", 2.0, _list),
    Benchmark("sweep of 200 no-ops", "--dry-run, and xargs -P", 1.5, _sweep),
]
