"""How the objects of a run are called, and what notes at nodes are."""

from __future__ import annotations

import hashlib

# The controller adds the highest index to the names of a Job's pods, and these are host names.
_LONGEST = 52
_LONGEST_LABEL = 63
_DIGEST = 8

RUN, SUBMISSION, PART = "fairway.dev/run", "fairway.dev/submission", "fairway.dev/part"
"""The labels of all that belongs to a run."""
CONTROLLER = "controller"
"""The part of a run that starts the others, and ends what does not go on."""
CONDITION = "HardwareFault"
"""The condition of a node that its health check writes: True where there is one."""
CORDONED = "fairway.dev/cordoned"
"""The annotation of a node that its health check has cordoned, and why: it lets no other back."""
BOOT = "fairway.dev/cordoned-boot"
"""The annotation that says since which boot a node is cordoned so."""
HELD = "fairway.dev/held-for-drivers"
"""The annotation of a new node that its health check keeps from being deleted, by the next one."""
KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""The annotation by which the autoscaler does not delete a node, though nothing uses it."""
MACHINE = "fairway.dev/machine"
"""The annotation that says which VM a node is, and on which host, as `fairway_core.machine` reads
it; `nodes` takes it at its word only about the VM that the node is."""


def job(run: str, submission: int, part: int | str) -> str:
    """The name of the Job of a part: a function of these, so that no part is there twice.

    >>> job("digits-7k2m9p", 0, 1), len(job("a" * 63, 12, 345))
    ('digits-7k2m9p-0-1', 52)
    """
    end = f"-{submission}-{part}"
    return f"{_cut(run, _LONGEST - len(end))}{end}"


def label(run: str) -> str:
    """The run's id as the value of a label, which ends with a letter or a number."""
    return run if run[-1].isalnum() else _cut(run, _LONGEST_LABEL - 1 - _DIGEST, always=True)


def _cut(run: str, room: int, *, always: bool = False) -> str:
    if len(run) <= room and not always:
        return run
    digest = hashlib.sha256(run.encode()).hexdigest()[:_DIGEST]
    return f"{run[: room - _DIGEST - 1].rstrip('-')}-{digest}"
