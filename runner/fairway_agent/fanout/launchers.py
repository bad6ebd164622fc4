"""Environment of a task's launcher: how it reaches its nodes, and where Open MPI keeps its session.

There are four ways to reach nodes, with one interface; only this module names them:

    local   every node is this machine
    ssh     the hosts of a cluster trust one another by OpenSSH
    srun    the nodes are a Slurm allocation
    sshd    the nodes of a Batch pool, or pods, have servers of the task's own

Each way is a folder of programs, which comes last on PATH: `fairway-each-node` runs a command once
on every node, with FAIRWAY_NODE_RANK, and fails as soon as one of them fails, which ends the
others; and MPI's launchers call another program in place of ssh.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairway_agent import processes

# Prefixes of Open MPI 4 and 5: each has one variable for all nodes, and two that override it.
_FAMILIES = ("OMPI_MCA_orte", "PRTE_MCA_prte")
_KINDS = ("", "_local", "_remote")
_OURS = "_FAIRWAY_MPI_SESSION"  # lets a run that a task submits tell it from the user's setting

# For each way: the folder of its programs, the one for MPI's launchers, and whose syntax it takes.
_WAYS = {
    "local": ("fairway_agent/fanout/local", "", ""),
    "ssh": ("fairway_agent/fanout/ssh", "fairway-rsh", "rsh"),
    "srun": ("fairway_agent/fanout/srun", "fairway-srun", "ssh"),
    "sshd": ("", "fairway-agent", "ssh"),  # Batch's programs are at the top level
}


def contract(
    name: str, path: str, *, nodes: int, inside: Sequence[str] = (), contained: bool = False
) -> dict[str, str]:
    """Returns the variables that let a launcher reach the nodes of its task.

    `path` is its PATH. `contained` says that the launcher of a single node runs in the job's
    container, which has no other node and none of these programs; `inside` is the command prefix
    that enters the container on each of several nodes.
    """
    place, program, like = _WAYS[name]
    folder = processes.BUNDLE / place
    words = ["fairway-each-node", *inside]
    if contained and nodes == 1:
        words = ["env", "FAIRWAY_NODE_RANK=0"]
    found = {"PATH": f"{path}:{folder}", "FAIRWAY_EACH_NODE": " ".join(words)}
    agent = str(folder / program)
    # Open MPI 4 and 5 split the value into arguments; MPICH, MVAPICH and Intel MPI use Hydra.
    settings = {
        "OMPI_MCA_plm_rsh_agent": program,
        "PRTE_MCA_plm_ssh_agent": program,
        "HYDRA_LAUNCHER": like,
        "HYDRA_LAUNCHER_EXEC": agent,
        "I_MPI_HYDRA_BOOTSTRAP": like,
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
    }
    return found | settings if program else found


AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""Variables that let Open MPI run as root, as in many containers."""


def root_variables() -> dict[str, str]:
    """Returns AS_ROOT; none of these variables for other users."""
    return AS_ROOT if os.geteuid() == 0 else {}


def session(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that make Open MPI keep its session files in a folder, which it creates
    on each node.

    Such settings in `environment` stay, unless they were made for the task that submitted this run.

    By default Open MPI uses a folder in /tmp named after its process id. A killed process leaves it
    behind, and a later one with the same id cannot start.
    """
    own = str(folder)
    outer = environment.get(_OURS, own)
    said = {name for name, value in environment.items() if value != outer}
    found = {
        f"{family}_tmpdir_base": own
        for family in _FAMILIES
        if not any(f"{family}{kind}_tmpdir_base" in said for kind in _KINDS)
    }
    return found | {_OURS: own}


def no_proxy_variables(hosts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for hosts that bypass the proxy, including a task's own nodes: these by
    name, which no range covers, and by address, as urllib knows no ranges.

    >>> no_proxy_variables(["nd-0"], {"no_proxy": "localhost,10.0.0.0/8"})
    {'no_proxy': 'localhost,10.0.0.0/8,nd-0'}
    """
    found = {}
    for name in ("no_proxy", "NO_PROXY"):
        direct = [each for each in environment.get(name, "").split(",") if each]
        if direct and "*" not in direct:
            found[name] = ",".join(dict.fromkeys([*direct, *hosts]))
    return found


_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000  # below are services' ports, also Batch's own, 6000
_EPHEMERAL = 32_768  # Linux's default, if the machine does not report it
_TRIES = 200


def free_port(count: int = 1, own: tuple[int, int] | None = None) -> int:
    """Returns the first of `count` consecutive ports on which nobody listens, on any address; from
    the task's `own` range, its first and last port, if they are free there. Raises OSError if no
    such ports are left.

    They lie below the ports that the kernel gives to outgoing connections: between here and the
    job's own `bind` any program's connection could take one of those.
    """
    if own is not None:
        for port in range(own[0], own[1] + 2 - count):
            if all(map(_is_free, range(port, port + count))):
                return port
    first = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = int(_RANGE.read_text().split()[0])
    if first - count <= _LOWEST:
        first = _EPHEMERAL  # unknown, or all ports are ephemeral here: any one will do
    room = first - count - _LOWEST
    for _ in range(_TRIES if room > 0 else 0):
        # `random` is slower to import than everything else here.
        port = _LOWEST + int.from_bytes(os.urandom(8), "big") % room
        if all(map(_is_free, range(port, port + count))):
            return port
    raise OSError(f"no {count} ports in a row are free between {_LOWEST} and {first}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
