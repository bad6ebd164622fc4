"""The page of engines: what each can do."""

from fairway_runner.engines.capabilities import ENGINES, table

_HEAD = """# Engines

<!-- Made by bin/docs from runner/fairway_runner/engines/capabilities.py: change it there. -->

A target's engine starts its jobs: `local` is this machine, `ssh` a
[cluster of plain hosts](ssh.md), `slurm` a [Slurm partition](slurm-jobs.md), `batch` a
[pool of Azure Batch](batch.md) and `kubernetes` a [namespace of a cluster](kubernetes.md). One job
file runs on each of them. What an engine cannot do is refused when the job is submitted.

"""

_TAIL = """
A step on `batch` is begun by a command that follows the run, or by a server: [why](batch.md#steps).

## Several targets

`target: [nd, spot]` in a job, or `fairway submit JOB --target nd,spot`, names several targets, the
best one first. All that can be wrong with the job (mounts, sizes, what an engine cannot do) is
looked at for each of them before anything starts, and the run goes to the first that takes it. It
goes on to the next one where a target

- cannot be asked, or refuses the run, before anything of it is there;
- says that it has no capacity or quota: a pool of Batch whose resize failed, a partition that is
  down or for whose nodes Azure has no room, limits of Slurm's that are used up, fewer nodes up than
  the job takes, a queue of Kueue's that will not admit it, a cluster whose autoscaler got no nodes,
  or that has none which fits;
- has not started it within the patience: `--patience 30m`, or in the job

```yaml
target: {in_order: [nd, spot], patience: 30m}
```

`target: {cheapest: [nd, spot]}` puts them in the order of their prices, and
`by: price/images_per_second` in that of the price of what the last run of the job that succeeded
on each has done: its metric `images_per_second` for each of its nodes. Targets without such a run
come last. Prices are those of `fairway cost`; a target in fairway.yaml may say its own `price`.

Nothing of Fairway's stays on by itself to watch a run. So it is moved by what follows it:
`fairway submit JOB --watch`, `fairway wait RUN`, `fairway logs RUN -f`, or a
[server](serve.md#steps-and-next-targets) of the project. Without one it stays where it is, and
`fairway show RUN` says which targets are left.

A run is never on two targets. It is cancelled, and has ended on the one, before anything of it is
sent to the next, and each step is written down first: where the command is killed, another goes
on. A target that does not answer while it may have the run is waited for. A run that has begun
stays; one that begins at the very moment in which it is to leave gets its signal and its grace as
by `fairway cancel`, and stays there, cancelled, since the next target would do its beginning twice:
`fairway retry RUN` runs it again where it is. One that is lost meanwhile stays lost, since nobody
saw it end. `fairway cancel` of a run whose target does not answer is remembered: the run goes
nowhere else, and is cancelled by the next command that follows it. The run keeps its id;
`fairway show` tells on which targets it was tried, when, and why it left them.
"""


def engines_page() -> str:
    """docs/engines.md."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return (
        _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |") + _TAIL
    )
