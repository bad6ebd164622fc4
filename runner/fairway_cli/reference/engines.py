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
before anything starts, and sends the run to the first that accepts it. The run moves to the next
target if one

- cannot be reached, or refuses the run, before any part of it is there;
- reports that it has no capacity or quota: a Batch pool whose resize failed, a partition that is
  down or for which Azure has no capacity, a Slurm limit that is used up, fewer nodes up than the
  job needs, a Kueue queue that will not admit it, a cluster whose autoscaler got no nodes or that
  has none that fits;
- has not started the run within its patience: `--patience 30m`, or in the job

```yaml
target: {in_order: [nd, spot], patience: 30m}
```

`target: {cheapest: [nd, spot]}` orders them by price. With `by: price/images_per_second` the price
is divided by what a node achieved there: the metric `images_per_second` per node of the job's last
successful run on that target. Targets without such a run come last. Prices are those of `fairway
cost`; a target in fairway.yaml may set its own `price`.

Fairway has no daemon that watches runs. A run is moved by whatever follows it: `fairway submit JOB
--watch`, `fairway wait RUN`, `fairway logs RUN -f`, or a [server](serve.md#steps-and-next-targets)
of the project. If nothing follows it, it stays where it is, and `fairway show RUN` lists the
targets that are left.

A run is never on two targets at once. Fairway cancels it on one and sees it end there before it
sends anything to the next. Each move is recorded first, so if the command is killed, the next one
continues.

- While a target that may have the run does not answer, Fairway waits for it.
- A run that has started stays. If it starts just as it is being moved, it gets its signal and grace
  period as with `fairway cancel`, and stays there as cancelled, because the next target would
  repeat what it has done; `fairway retry RUN` runs it again in place.
- A run that is lost meanwhile stays lost, because nobody saw it end.
- `fairway cancel` is remembered if the target does not answer: the run moves nowhere else, and the
  next command that follows it cancels it.

The run keeps its id. `fairway show` lists the targets on which it was tried, when, and why it left
them.
"""


def engines_page() -> str:
    """docs/engines.md."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return (
        _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |") + _TAIL
    )
