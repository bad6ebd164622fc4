"""The page of engines: what each can do."""

from fairway_runner.engines.capabilities import ENGINES, table

_HEAD = """# Engines

<!-- Made by bin/docs from runner/fairway_runner/engines/capabilities.py: change it there. -->

A target's engine starts its jobs: `local` is this machine, `ssh` a [cluster without a
scheduler](ssh.md), `slurm` a [Slurm partition](slurm-jobs.md), `batch` an [Azure Batch
pool](batch.md) and `kubernetes` a [namespace of a cluster](kubernetes.md). The same job file runs
on all of them. A job that needs something its engine cannot do is refused at submission.

"""

_TAIL = """
On `batch`, a command that follows the run, or a server, starts the next step:
[why](batch.md#steps).

## Which MPI a launcher uses

On every engine, launchers use the MPI on PATH. If there is none, they use one of Azure's HPC image,
from `/opt`, so that no job needs `module load`:

| launcher | MPI of the HPC image |
|---|---|
| `openmpi`, `horovod` | HPC-X, or else the newest Open MPI |
| `hpcx` | HPC-X, whatever is on PATH |
| `mpich`, `mvapich` | MVAPICH |
| `intelmpi` | Intel MPI |
| `nccl-tests` | HPC-X for the image's own programs, which are linked against it |

## Several targets

`target: [nd, spot]` in a job, or `fairway submit JOB --target nd,spot`, names several targets, the
preferred one first. Fairway checks the job for each of them (mounts, sizes, what the engine can do)
before anything starts, and submits the run to the first that has room for it. A target is passed
over if it

- cannot be reached;
- says that it has no capacity or quota: a Batch pool whose last resize failed, a partition that is
  down, fewer nodes up than the job needs, a Kueue queue that admits nothing;
- refuses the run when it is submitted, as Slurm does for a limit that is used up.

If all of them are without capacity, the run waits on the first that answers. `target: {in_order:
[nd, spot]}` is the same as the list.

`target: {cheapest: [nd, spot]}` orders them by price. With `by: price/images_per_second` the price
is divided by what a node achieved there: the metric `images_per_second` per node of the job's last
successful run on that target. Targets without such a run come last. Prices are those of `fairway
cost`; a target in fairway.yaml may set its own `price`.

A run stays on the target that it was submitted to, however long it waits there, and is never on
two: a target that may have any part of it is asked to complete the submission, also if the command
was killed. To move a run, cancel it and submit the job again. `fairway show` says which targets
were passed over, and why.
"""


def engines_page() -> str:
    """docs/engines.md."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return (
        _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |") + _TAIL
    )
