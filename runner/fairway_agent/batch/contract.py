"""The environment that a launcher relies on; its directories exist when it starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairway_agent.allocators import batch
from fairway_agent.fanout import ways
from fairway_agent.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.batch.places import Places
    from fairway_agent.task_spec import TaskSpec


def directories(places: Places, spec: TaskSpec) -> dict[str, Path]:
    """The directories of the contract, by variable."""
    found = {
        "FAIRWAY_SHARED_DIR": places.shared,
        "FAIRWAY_SCRATCH_DIR": places.scratch,
        "FAIRWAY_CHECKPOINT_DIR": places.checkpoint(spec),
    }
    for name in spec.outputs:
        found[f"FAIRWAY_OUTPUT_{name.upper()}"] = places.base / "outputs" / name
    return found


def make_directories(places: Places, spec: TaskSpec) -> None:
    """Makes them on this node."""
    for directory in (places.base, *directories(places, spec).values()):
        directory.mkdir(parents=True, exist_ok=True)


def contract(places: Places, spec: TaskSpec, attempt: int) -> dict[str, str]:
    """The whole environment of the task's script."""
    nodes = [host.address for host in batch.given()]
    hostfile = places.base / "hosts"
    hostfile.write_text("".join(f"{node}\n" for node in nodes), encoding="ascii")
    count, width = spec.nodes, spec.processes_per_node
    path = os.environ.get("PATH", os.defpath)
    return {
        **os.environ,
        # Or a bash that a launcher starts on a socket takes itself for sshd's, and reads bashrc.
        "SHLVL": "2",
        **places.plan.environment,
        **places.inputs(),
        **spec.environment,
        **ways.contract("sshd", path, nodes=len(nodes)),
        "FAIRWAY_RUN": places.run,
        "FAIRWAY_TASK": places.task,
        "FAIRWAY_ATTEMPT": str(attempt),
        "FAIRWAY_NODES": str(count),
        "FAIRWAY_PROCESSES_PER_NODE": str(width),
        "FAIRWAY_WORLD_SIZE": str(count * width),
        "FAIRWAY_HOSTS": ",".join(nodes),
        "FAIRWAY_HOSTFILE": str(hostfile),
        "FAIRWAY_MAIN_HOST": nodes[0],
        "FAIRWAY_MAIN_PORT": str(free_port(width)),
        "FAIRWAY_MPI_ARGS": "",
        **_as_root(),
        **{name: str(path) for name, path in directories(places, spec).items()},
    }


def _as_root() -> dict[str, str]:
    """What Open MPI wants to hear before it runs as root, as it does in some containers."""
    if os.geteuid() != 0:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
