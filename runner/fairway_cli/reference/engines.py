"""The page of engines: what each can do."""

from fairway_runner.engines.capabilities import ENGINES, table

_HEAD = """# Engines

<!-- Made by bin/docs from runner/fairway_runner/engines/capabilities.py: change it there. -->

A target's engine starts its jobs: `local` is this machine, `ssh` a
[cluster of plain hosts](ssh.md), `slurm` a [Slurm partition](slurm-jobs.md) and `batch` a
[pool of Azure Batch](batch.md). One job file runs on each of them. What an engine cannot do is
refused when the job is submitted.

"""


def engines_page() -> str:
    """docs/engines.md."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |")
