"""How a part of a run is described to sbatch. Standard library only."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import bundle
from fairway_agent.share import Wanted
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.plan import RunPlan

# Seconds beyond a task's own time: what is left of the limit when Slurm tells it (which may be
# a minute early), and what its preparation takes at most where it has something to prepare.
_NOTICE = 60
_SLACK = 300
_PREPARATION = 3600

# What sbatch takes: 65,535 seconds before the limit (its manual, --signal), and a limit in
# seconds that an int holds. The task itself keeps the times that it was given.
_EARLIEST_NOTICE = 65_535
_LONGEST_LIMIT = 10 * 365 * 24 * 60  # minutes

_SCRIPT = """\
#!/bin/bash
python={python}
[[ -x $python ]] || python=python3
exec "$python" -s {bundle} fairway_agent.slurm.job {words}
"""


@dataclass(frozen=True)
class Node:
    """A kind of node: its features, how many GPUs Slurm knows of, its CPUs, and its memory in
    MiB."""

    features: tuple[str, ...] = ()
    gpus: int = 0
    cpus: int = 1
    memory: int = 0


@dataclass(frozen=True)
class Resources:
    """What the partition of a run offers, and the run wants: one of `features` of every node
    (or ""), the number of GPUs of each (0 where Slurm knows of none), its niceness, and the account
    and the quality of service that it names (or ""). `node` is the largest kind of node, of which
    some tasks may want a part."""

    partition: str
    feature: str
    gpus: int
    cpus: int
    nice: int
    account: str = ""
    qos: str = ""
    node: Node = Node()

    def cpus_of(self, wanted: Wanted) -> int:
        """How many CPUs of a node a task gets, one at least: Slurm gives no job less."""
        return max(1, wanted.cores_of(self.node.cpus, self.node.gpus))

    def part_of(self, wanted: Wanted | None) -> float | None:
        """How large a part of a node it wants, by what it has most of; None for whole nodes."""
        if wanted is None:
            return None
        gpus = (wanted.gpus or 0) / max(1, self.node.gpus)
        return round(min(1.0, max(gpus, self.cpus_of(wanted) / self.node.cpus)), 6)


def script(folder: Path, part: Part, submission: int) -> str:
    """The batch script: all that it does is in Fairway's own files on the shared folder."""
    words = [str(folder), part.stage, str(submission), str(part.number)]
    if not part.is_array:
        words.append(str(part.indices[0]))
    return _SCRIPT.format(
        python=shlex.quote(sys.executable or "python3"),
        bundle=shlex.quote(str(bundle.here())),
        words=shlex.join(words),
    )


def arguments(
    folder: Path,
    part: Part,
    submission: int,
    plan: RunPlan,
    resources: Resources,
    dependency: str,
    *,
    has_setup: bool = False,
) -> list[str]:
    """The words of the command line."""
    words = [
        "sbatch",
        "--parsable",
        f"--job-name={plan.run}",
        f"--comment={part.comment(plan.run, submission)}",
        f"--partition={resources.partition}",
        f"--nodes={part.nodes}",
        # A task that has a part of a node is one of Slurm's, whose CPUs are told exactly.
        f"--ntasks-per-node={1 if part.wanted else part.width}",
        *_of_node(part, resources),
        # All nodes are there before the script starts; one that is lost costs an attempt.
        *("--wait-all-nodes=1", "--requeue"),
        f"--signal=B:USR1@{min(math.ceil(plan.grace) + _NOTICE, _EARLIEST_NOTICE)}",
        f"--nice={resources.nice}",
        f"--chdir={folder}",
        f"--output={folder}/slurm.txt",
        "--open-mode=append",
    ]
    if part.width > resources.cpus and not part.wanted:
        words.append("--overcommit")
    if part.is_array:
        limit = f"%{plan.max_parallel}" if plan.max_parallel else ""
        words.append(f"--array={','.join(_ranges(part.indices))}{limit}")
    if times := _times(plan, prepared=has_setup or bool(plan.staged)):
        words.append(f"--time={min(times)}")
    if resources.feature:
        words.append(f"--constraint={resources.feature}")
    if resources.gpus and not part.wanted:
        words.append(f"--gres=gpu:{resources.gpus}")
    if resources.account:
        words.append(f"--account={resources.account}")
    if resources.qos:
        words.append(f"--qos={resources.qos}")
    if dependency:
        words += [f"--dependency={dependency}", "--kill-on-invalid-dep=yes"]
    return words


def _times(plan: RunPlan, *, prepared: bool) -> list[int]:
    """For how many minutes Slurm has to let a job go on, by each limit: enough for all that the
    job itself may want, which keeps its own time."""
    spans = []
    if plan.timeout is not None:
        attempts = (plan.retries + 1) * (plan.timeout + plan.grace)
        spans.append(attempts + _PREPARATION * prepared)
    if plan.max_duration is not None:
        spans.append(plan.max_duration + plan.grace)
    minutes = (math.ceil((each + _NOTICE + _SLACK) / 60) for each in spans)
    return [min(each, _LONGEST_LIMIT) for each in minutes]


def _of_node(part: Part, resources: Resources) -> list[str]:
    """What each task takes of its nodes: all, or as much memory as of the CPUs."""
    wanted = part.wanted
    if wanted is None:
        return ["--exclusive", "--mem=0"]
    if (wanted.gpus or 0) > resources.node.gpus:
        has = Wanted(resources.node.gpus)
        message = f"a task needs {wanted}, and Slurm knows of {has} a node in the partition "
        message += f"`{resources.partition}`"
        hint = "see `sinfo -o %G`; GPUs are named in Slurm's gres.conf"
        raise Fault("no-share", message, hint, 2)
    cpus = resources.cpus_of(wanted)
    memory = max(1, resources.node.memory * cpus // resources.node.cpus)
    words = [f"--cpus-per-task={cpus}", f"--mem={memory}M"]
    return [*words, f"--gres=gpu:{wanted.gpus}"] if wanted.gpus else words


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Ascending numbers as Slurm writes them.

    >>> list(_ranges([0, 1, 2, 5, 7, 8]))
    ['0-2', '5', '7-8']
    """
    first = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number == last + 1:
            last += 1
            continue
        yield str(first) if first == last else f"{first}-{last}"
        if number is not None:
            first = last = number
