"""Settings of the cluster for the project's own templates."""

from __future__ import annotations

import getpass
import ipaddress
import os
import stat
from typing import TYPE_CHECKING

from fairway_agent.fanout.launchers import free_port
from fairway_core import slurm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_CPUS, _MEMORY = 4, 4_000  # of each node, whatever this machine has; in cores and MiB
_FIRST_ADDRESS = ipaddress.IPv4Address("127.0.2.1")

# slurmctld listens on its loopback address; ports that slurmd opens require munge's key.
_MORE = """
CommunicationParameters=NoCtldInAddrAny
# Each node's own /tmp, by another name: the cluster's folder lies in this machine's.
TaskProlog={folder}/etc/task-prolog
"""
_TASK_PROLOG = """\
#!/bin/sh
echo "export TMPDIR={folder}/temporary.$SLURMD_NODENAME"
"""


def describe(
    folder: Path, *, nodes: int, cloud: int, programs: slurm.Cloud | None, gpus: int = 0
) -> slurm.SlurmCluster:
    """Returns the description of a cluster in a folder: permanent `nodes`, and `cloud` ones. A
    requeued job waits only for seconds, a dead node is soon noticed, and a command soon gives up on
    a slurmctld that is down.

    Each permanent node has `gpus`, and at least a core for each.
    """
    first = free_port(1 + nodes + cloud)
    partitions = [_partition("sim", nodes, first + 1, 0, _gpus(folder, gpus))]
    if cloud:
        partitions.append(_partition("cloud", cloud, first + 1 + nodes, nodes))
    return slurm.SlurmCluster(
        name="sim",
        host="localhost",
        address="127.0.0.1",
        slurmctld_port=first,
        user=getpass.getuser(),
        node_user=getpass.getuser(),
        partitions=tuple(partitions),
        paths=slurm.Paths(
            state=f"{folder}/state",
            spool=f"{folder}/spool.%n",
            run=f"{folder}/run",
            log=f"{folder}/log",
            temporary=f"{folder}/temporary.%n",
            munge_socket=f"{folder}/munge/s",
        ),
        programs=slurm.Programs(prolog="", epilog="", health_check="", mail="/bin/true"),
        timing=slurm.Timing(
            credential=5, slurmd=10, kill_wait=3, message=3, min_job_age=300, eager=True
        ),
        containment="none",
        configless=False,
        cloud=programs,
    )


def write(
    folder: Path, description: slurm.SlurmCluster, nodes: Sequence[str], tracking: str
) -> None:
    """Writes the files of the cluster. `tracking` is the plugin by which Slurm finds the processes
    of a step."""
    etc = folder / "etc"
    for name, text in slurm.render(description).items():
        (etc / name).write_text(text.replace("proctrack/linuxproc", tracking))
    with (etc / "slurm.conf").open("a") as conf:
        conf.write(_MORE.format(folder=folder))
    (etc / "task-prolog").write_text(_TASK_PROLOG.format(folder=folder))
    (etc / "task-prolog").chmod(0o755)
    (etc / "hosts").write_text(hosts(nodes))


def _gpus(folder: Path, count: int) -> slurm.Gpus | None:
    """Returns GPUs backed by other devices, such as /dev/null: Slurm requires a device for each,
    and does not check which."""
    files = [folder / "dev" / f"gpu{number}" for number in range(count)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return slurm.Gpus(type="sim", files=tuple(map(str, files))) if files else None


def _partition(
    name: str, count: int, port: int, before: int, gpus: slurm.Gpus | None = None
) -> slurm.Partition:
    """Returns a partition; `before` nodes of other partitions have the addresses ahead of its
    own."""
    last = (_FIRST_ADDRESS + before).packed[3]
    numbers = str(last) if count == 1 else f"[{last}-{last + count - 1}]"
    return slurm.Partition(
        name=name,
        count=count,
        cpus=max(_CPUS, len(gpus.files) if gpus else 0),
        gpus=gpus,
        memory_mib=_MEMORY,
        address=f"127.0.2.{numbers}",
        port=port,
        features=("cpu",),
        cloud=name == "cloud",
        kept=0 if name == "cloud" else count,
        default=name == "sim",
    )


def folders_of(nodes: Sequence[str]) -> Iterator[str]:
    for name in nodes:
        yield f"spool.{name}"
        yield f"temporary.{name}"


def hosts(nodes: Sequence[str]) -> str:
    lines = [f"{_FIRST_ADDRESS + index} {name}\n" for index, name in enumerate(nodes)]
    return "127.0.0.1 localhost\n" + "".join(lines)
