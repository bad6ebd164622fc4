"""Slurm's configuration files, and the commands for its accounting, from a description."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment as Templates

    from fairway_core.slurm.cluster import Accounting, Gpus, Partition, SlurmCluster


TOPOLOGY = "topology.conf"


def render(cluster: SlurmCluster) -> dict[str, str]:
    """Returns the text of each file, by its name in /etc/slurm.

    `slurm.conf`, `cgroup.conf` and `gres.conf` always; `topology.conf` for several partitions;
    `slurmdbd.conf` with accounting, for which Slurm requires mode 600.

    >>> from fairway_core.slurm import Partition, SlurmCluster
    >>> nodes = Partition(name="n", first=1, count=3, cpus=4, memory_mib=4000)
    >>> sorted(render(SlurmCluster(name="lab", host="localhost", partitions=(nodes,))))
    ['cgroup.conf', 'gres.conf', 'slurm.conf']
    """
    gpus = [(each, each.gpus) for each in cluster.partitions if each.gpus]
    files = {
        "slurm.conf": _slurm_conf(cluster),
        "cgroup.conf": template("cgroup.conf.j2", cluster=cluster),
        "gres.conf": template(
            "gres.conf.j2", gres=[line for each in gpus for line in _gpu_lines(*each)]
        ),
    }
    if _has_topology(cluster):
        files[TOPOLOGY] = template("topology.conf.j2", partitions=cluster.partitions)
    if cluster.accounting:
        files["slurmdbd.conf"] = template("slurmdbd.conf.j2", cluster=cluster)
    return files


def _slurm_conf(cluster: SlurmCluster) -> str:
    auth = {"socket": cluster.paths.munge_socket, "cred_expire": cluster.timing.credential}
    # Cloud nodes are idle once deleted. Slurm reaches each node at the address from which it
    # registered, by default from 23.11 on.
    controller = {"enable_configless": cluster.configless, "idle_on_node_suspend": cluster.cloud}
    return template(
        "slurm.conf.j2",
        cluster=cluster,
        auth_info=[f"{key}={value}" for key, value in auth.items() if value],
        controller_parameters=[key for key, given in controller.items() if given],
        has_topology=_has_topology(cluster),
        several_on_one_machine=any(partition.port for partition in cluster.partitions),
        nodes=[_nodes(partition) for partition in cluster.partitions],
        partitions=[_partition(partition) for partition in cluster.partitions],
        kept=[each.numbered(each.first, each.kept) for each in cluster.partitions if each.kept],
    )


def _has_topology(cluster: SlurmCluster) -> bool:
    """Returns True if nodes are in several networks: each scale set has its own."""
    return len(cluster.partitions) > 1


def _nodes(partition: Partition) -> str:
    words = [f"NodeName={partition.nodes}"]
    if partition.address:
        words += ["NodeHostname=localhost", f"NodeAddr={partition.address}"]
    if partition.port:
        last = partition.port + partition.count - 1
        ports = str(partition.port) if partition.count == 1 else f"[{partition.port}-{last}]"
        words.append(f"Port={ports}")
    words.append(f"CPUs={partition.cpus}")
    if partition.cores_per_socket is not None:
        words += [
            f"Sockets={partition.sockets}",
            f"CoresPerSocket={partition.cores_per_socket}",
            f"ThreadsPerCore={partition.threads_per_core}",
        ]
    words.append(f"RealMemory={partition.memory_mib}")
    if partition.gpus:
        words.append(f"Gres=gpu:{partition.gpus.type}:{len(partition.gpus.files)}")
    if partition.features:
        words.append(f"Feature={','.join(partition.features)}")
    words.append(f"State={'CLOUD' if partition.cloud else 'UNKNOWN'}")
    return " ".join(words)


def _partition(partition: Partition) -> str:
    """Returns a partition's line. A job's nodes are in one partition, as InfiniBand requires."""
    default = "YES" if partition.default else "NO"
    return (
        f"PartitionName={partition.name} Nodes={partition.nodes} Default={default} "
        f"MaxTime=INFINITE DefMemPerCPU={partition.memory_mib // partition.cpus} State=UP"
    )


def _gpu_lines(partition: Partition, gpus: Gpus) -> list[str]:
    """Returns a line for each GPU, with the cores of its NUMA domain if these are known."""
    head = f"NodeName={partition.nodes} Name=gpu Type={gpus.type}"
    cores = partition.cores_per_socket
    if not cores or len(gpus.numa) != len(gpus.files) or max(gpus.numa) >= partition.sockets:
        return [f"{head} File={file}" for file in gpus.files]
    return [
        f"{head} File={file} Cores={domain * cores}-{(domain + 1) * cores - 1}"
        for file, domain in zip(gpus.files, gpus.numa, strict=True)
    ]


def template(name: str, **values: object) -> str:
    """Renders a file of this package from its template; the filter `quote` quotes for the shell."""
    text: str = _templates().get_template(name).render(**values)
    return text


@cache
def _templates() -> Templates:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(  # noqa: S701 - writes configuration and no HTML
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        # The shell's ${#name[@]} contains the default marker.
        comment_start_string="{=#",
        comment_end_string="#=}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["quote"] = shlex.quote
    return templates


# Accounting commands can be repeated: existing entries stay, and get the latest values.
# Source: SchedMD, sacctmgr(1); Slurm documentation, "Preemption" and "Resource limits".
_NORMAL = "normal"
# The account of jobs if the environment defines none.
_DEFAULT = "default"


def accounting_commands(cluster: SlurmCluster) -> list[str]:
    """Returns the arguments of each `sacctmgr -i` command, in order; none without rules.

    >>> from fairway_core.slurm import Accounting, SlurmCluster
    >>> rules = Accounting(accounts=(("vision", 3),), users=("me",))
    >>> accounting_commands(SlurmCluster(name="lab", host="h", partitions=(), accounting=rules))[1]
    'add account vision Cluster=lab'
    """
    rules = cluster.accounting
    if not rules or not rules.ruled:
        return []
    names = [name for name, _ in rules.qos]
    found = [f"add cluster {cluster.name}"]
    found += [f"add qos {name}" for name in names if name != _NORMAL]
    # All qualities of service exist before one refers to another.
    for name, each in rules.qos:
        # -1 removes the limit of an earlier configuration.
        most = -1 if each.max_nodes_per_user is None else each.max_nodes_per_user
        values = f"Priority={each.priority} MaxTRESPerUser=node={most}"
        found.append(f"modify qos {name} set {values} Preempt={','.join(each.preempts)}")
    allowed = ",".join(dict.fromkeys([_NORMAL, *names]))
    for account, share in _accounts(rules):
        found.append(f"add account {account} Cluster={cluster.name}")
        where = f"where Name={account} Cluster={cluster.name}"
        found.append(f"modify account {where} set Fairshare={share} QOS={allowed}")
    return [*found, *share_commands(cluster, rules.users)]


def share_commands(cluster: SlurmCluster, users: Sequence[str]) -> list[str]:
    """Returns the arguments of `sacctmgr -i` commands that add users to every account, with equal
    shares within one; none without rules.

    >>> from fairway_core.slurm import Accounting, SlurmCluster
    >>> rules = Accounting(several=True)
    >>> lab = SlurmCluster(name="lab", host="h", partitions=(), accounting=rules)
    >>> share_commands(lab, ["ada"])[0]
    'add user ada Account=default Cluster=lab'
    """
    rules = cluster.accounting
    if not rules or not rules.ruled:
        return []
    accounts = [account for account, _ in _accounts(rules)]
    found = []
    for user in users:
        found += [f"add user {user} Account={each} Cluster={cluster.name}" for each in accounts]
        where = f"where Name={user} Cluster={cluster.name}"
        found.append(f"modify user {where} set DefaultAccount={accounts[0]}")
    return found


def _accounts(rules: Accounting) -> tuple[tuple[str, int], ...]:
    return rules.accounts or ((_DEFAULT, 1),)
