"""Rules on a job's command and the launcher that starts it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import JobSubject

# Templates that run the command once for each rank.
_START_RANKS = frozenset(
    {
        "deepspeed",
        "horovod",
        "hpcx",
        "intelmpi",
        "mpich",
        "mvapich",
        "openmpi",
        "tensorflow",
        "torchrun",
    }
)
# A launcher where a command begins, behind variables that are set for it.
_LAUNCHER = re.compile(
    r"(?m)(?:^|[;&|(]|(?<![^\s;&|(])exec[ \t])[ \t]*(?:\w+=(?:\$\([^()\n]*\)|[^\s;&|(])*[ \t]+)*"
    r"(mpirun|mpiexec|mpiexec\.hydra|torchrun|srun|deepspeed|horovodrun|accelerate\s+launch"
    r"|python3?\s+-m\s+torch\.distributed\.\w+)(?=\s|$)"
)


def _jobs(subject: JobSubject) -> Iterator[Occurrence]:
    job = subject.job
    ranks = job.get("nodes", 1), job.get("processes_per_node", 1)
    yield (
        ("command",),
        {
            "command": str(job.get("command", "")),
            "template": str(job.get("template", "openmpi")),
            "several": ranks != (1, 1),
        },
    )


@check("nested-launcher", Severity.WARNING, Subject.JOB, at=_jobs)
def nested_launcher(command: str, template: str, several: bool) -> Iterator[Fault]:
    """A launcher such as `mpirun` in the command of a template that starts the ranks itself.

    Each of the ranks would start all of them once more.

    Wrong:
        template: openmpi
        processes_per_node: 2
        command: mpirun -np 2 ./train

    Right:
        template: openmpi
        processes_per_node: 2
        command: ./train
    """
    found = _LAUNCHER.search(command) if several and template in _START_RANKS else None
    if found:
        yield Fault(
            f"the template `{template}` starts the ranks, and each of them would run `{found[1]}`",
            f"leave `{found[1]}` and its options out, or use `template: plain`, "
            "which runs the command once",
        )
