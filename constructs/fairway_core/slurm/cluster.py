"""A Slurm cluster as plain data: all that differs between Azure and a single machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

# Package names of Ubuntu's distribution. All others are built as SchedMD describes: `slurm-smd…`,
# with the same programs at the same paths, but without Slurm's account.
_DISTRIBUTION = "slurm-client", "slurmctld", "slurmd", "slurmdbd"
# Slurm reads the state of the three releases before it. Source: Slurm's upgrade guide.
_BACK = 3
_RELEASE = re.compile(r"([0-9]{2})\.(02|05|08|11)(\..*)?")


@dataclass(frozen=True, kw_only=True)
class Packages:
    """A release of Slurm, and the apt repository that has it; without `url` the distribution's.

    `key` is the public key of the repository; without one it is downloaded from `key_url`. `pmix`
    is the package of the library for `srun --mpi=pmix` that Slurm was built with.

    >>> Packages(version="23.11").names["slurmd"]
    'slurmd'
    >>> Packages(version="25.11.5", url="https://a.example/slurm").names["slurmd"]
    'slurm-smd-slurmd'
    """

    version: str
    url: str = ""
    suite: str = "stable"
    component: str = "main"
    key: str = ""
    key_url: str = ""
    pmix: str = "libpmix2t64"
    pmix_version: str = ""

    @property
    def names(self) -> dict[str, str]:
        """The names of the packages, by their names in the distribution."""
        if not self.url:
            return {name: name for name in _DISTRIBUTION}
        return {name: f"slurm-smd-{name.removeprefix('slurm-')}" for name in _DISTRIBUTION}


DISTRIBUTION = Packages(version="23.11")
"""The packages of Ubuntu 24.04, the scheduler's distribution."""

# CycleCloud's packages: version, repository and key. Source: Azure/cyclecloud-slurm 049346f
# (2026-07-15), README and azure-slurm-install/ubuntu.sh.
MICROSOFT = Packages(
    version="25.11.5",
    url="https://packages.microsoft.com/repos/slurm-ubuntu-noble",
    key_url="https://packages.microsoft.com/keys/microsoft.asc",
    pmix="pmix",
    pmix_version="4.2.9",
)


def reads_state(version: str, of: str) -> bool:
    """Returns True if that version of Slurm can start with the jobs and history of another.

    >>> reads_state("25.05.4", of="23.11"), reads_state("25.11.5", of="23.11")
    (True, False)
    >>> reads_state("25.05.4", of="25.11.5")
    False
    """
    new, old = _ordinal(version), _ordinal(of)
    return new is None or old is None or 0 <= new - old <= _BACK


def _ordinal(version: str) -> int | None:
    """Returns a release's ordinal: from 23.11 on there are two a year, in May and November."""
    found = _RELEASE.fullmatch(version)
    return int(found[1]) * 2 + (found[2] == "11") if found else None


SCALES = (
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    # To add an instance, and to delete one by its id.
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    # New instances join the subnet and get the nodes' identity.
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
)
"""Actions on the scale sets, and on the subnet and the identity of their instances."""

PLACES = "Microsoft.Compute/proximityPlacementGroups/write"
"""The action on a placement group, which adding an instance changes: there is no narrower one.
Source: Azure documentation, AKS cluster identity permissions; "Azure permissions for Compute"."""

READS_OPERATIONS = "Microsoft.Compute/locations/operations/read"
"""Actions to read why Azure could not make an instance: operations belong to the location."""


# The folder of Fairway's programs, prolog and epilog on schedulers and nodes.
PROGRAMS = "/usr/local/lib/fairway/slurm"

SLURMCTLD_PORT = 6817


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """The GPUs of a node as Slurm's GRES: one device file each, in the order of their numbers.

    `numa` is the NUMA domain of each, if known: Slurm then gives a task cores close to its GPU.
    """

    type: str
    files: tuple[str, ...]
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition and its identical nodes, `NAME-[first…first+count-1]`: one scale set.

    `memory_mib` is the memory for jobs. With `cloud` nodes are started and deleted, and the first
    `kept` of them stay. `address` and `port` are for nodes that share one machine: node number n
    listens on `port` + n.
    """

    name: str
    count: int
    cpus: int
    memory_mib: int
    sockets: int = 1
    cores_per_socket: int | None = None
    threads_per_core: int = 1
    gpus: Gpus | None = None
    features: tuple[str, ...] = ()
    cloud: bool = False
    kept: int = 0
    first: int = 0
    address: str = ""
    port: int | None = None
    default: bool = False

    def numbered(self, first: int, count: int) -> str:
        """Returns Slurm's host list of `count` nodes, from the number `first`.

        >>> Partition(name="nd", count=4, cpus=1, memory_mib=1).numbered(0, 4)
        'nd-[0-3]'
        """
        if count == 1:
            return f"{self.name}-{first}"
        return f"{self.name}-[{first}-{first + count - 1}]"

    @property
    def nodes(self) -> str:
        """Slurm's host list of all nodes."""
        return self.numbered(self.first, self.count)

    @property
    def node_names(self) -> list[str]:
        """The name of each node."""
        return [f"{self.name}-{number}" for number in range(self.first, self.first + self.count)]


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """The programs that start and delete nodes, and Slurm's timeouts for them in seconds.

    A node is deleted after `idle` without jobs. `resume` is the timeout from requesting a node
    until it registers, `suspend` the time from deleting one until its name is used again.
    """

    resume_program: str = f"{PROGRAMS}/resume"
    suspend_program: str = f"{PROGRAMS}/suspend"
    resume_fail_program: str = f"{PROGRAMS}/resume-fail"
    idle: int = 600
    resume: int = 1800
    suspend: int = 180


@dataclass(frozen=True, kw_only=True)
class Qos:
    """A quality of service: the priority and limit of its jobs, and whose jobs they preempt.

    >>> urgent = Qos(priority=100, preempts=("normal",))
    """

    priority: int = 0
    preempts: tuple[str, ...] = ()
    max_nodes_per_user: int | None = None


@dataclass(frozen=True, kw_only=True)
class Accounting:
    """The settings of slurmdbd: its host as slurmctld sees it, and its database.

    MariaDB knows slurmdbd by its socket. `accounts` have shares of the cluster, and `qos` their
    rules; `users` belong to all of them. With `several` more users are added later, see
    `share_commands`.
    """

    host: str = "localhost"
    port: int = 6819
    database: str = "slurm_acct_db"
    accounts: tuple[tuple[str, int], ...] = ()
    qos: tuple[tuple[str, Qos], ...] = ()
    users: tuple[str, ...] = ()
    several: bool = False

    @property
    def ruled(self) -> bool:
        """True if accounts and qualities of service limit jobs; with several users, shares follow
        past usage."""
        return bool(self.accounts or self.qos or self.several)

    @property
    def preempts(self) -> bool:
        """True if jobs may preempt others."""
        return any(each.preempts for _, each in self.qos)


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Folders of daemons; `%n` stands for a node's name if several share one machine."""

    state: str = "/var/lib/fairway-slurm/state"
    spool: str = "/var/spool/slurmd"
    run: str = "/run/slurm"
    log: str = "/var/log/slurm"
    temporary: str = ""
    munge_socket: str = ""


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Paths of prolog, epilog, health check and mail program; an empty one is not run."""

    prolog: str = f"{PROGRAMS}/prolog"
    epilog: str = f"{PROGRAMS}/epilog"
    health_check: str = f"{PROGRAMS}/health-check"
    health_check_seconds: int = 300
    mail: str = f"{PROGRAMS}/mail"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Timeouts of the daemons, in seconds.

    `credential` is how long a launch is valid, and so how long a requeued job waits; 0 keeps
    Slurm's two minutes. A command waits `message` for a response. A job is killed `kill_wait` after
    it was told to end. With `eager` scheduling starts at once, which suits few jobs.
    """

    credential: int = 0
    slurmd: int = 120
    kill_wait: int = 30
    message: int = 30
    min_job_age: int = 3600
    eager: bool = False


@dataclass(frozen=True, kw_only=True)
class SlurmCluster:
    """A cluster whose configuration `render` writes.

    `address` is the address of `host`. With `containment` "cgroup" jobs get only the cores, memory
    and GPUs that they asked for; "none" is for a machine without systemd. With `configless` nodes
    fetch all files from slurmctld. All machines have the same `packages`.

    >>> nodes = Partition(name="nd", count=2, cpus=96, memory_mib=1_800_000, cloud=True)
    >>> SlurmCluster(name="lab", host="lab-scheduler", address="10.0.0.4",
    ...              partitions=(nodes,), cloud=Cloud()).cloud.idle
    600
    """

    name: str
    host: str
    partitions: tuple[Partition, ...]
    address: str = ""
    slurmctld_port: int = SLURMCTLD_PORT
    user: str = "slurm"
    node_user: str = "root"
    paths: Paths = Paths()
    programs: Programs = Programs()
    timing: Timing = Timing()
    containment: Literal["cgroup", "none"] = "cgroup"
    configless: bool = True
    cloud: Cloud | None = None
    accounting: Accounting | None = None
    packages: Packages = DISTRIBUTION
    max_array_size: int = 100_001
