"""Accounts and qualities of service, as commands for Slurm's accounting.

Each may be given again: what is there stays, and has the values of the last time.
Source: SchedMD, sacctmgr(1); Slurm documentation, "Preemption" and "Resource limits".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.slurm.cluster import Accounting, Qos, SlurmCluster

_NORMAL = "normal"
# Of jobs that name none, where no account is asked for.
_DEFAULT = "default"


def accounting_commands(cluster: SlurmCluster) -> list[str]:
    """The words behind `sacctmgr -i` of each command, in their order; none without rules.

    >>> from fairway_core.slurm import Accounting, SlurmCluster
    >>> rules = Accounting(accounts=(("vision", 3),), users=("me",))
    >>> accounting_commands(SlurmCluster(name="lab", host="h", partitions=(), accounting=rules))[1]
    'add account vision Cluster=lab'
    """
    rules = cluster.accounting
    return list(_commands(cluster.name, rules)) if rules and rules.ruled else []


def share_commands(cluster: SlurmCluster, users: Sequence[str]) -> list[str]:
    """The same for users who come later; none where nothing is accounted for.

    >>> from fairway_core.slurm import Accounting, SlurmCluster
    >>> rules = Accounting(several=True)
    >>> lab = SlurmCluster(name="lab", host="h", partitions=(), accounting=rules)
    >>> share_commands(lab, ["ada"])[0]
    'add user ada Account=default Cluster=lab'
    """
    rules = cluster.accounting
    return list(_shares(cluster.name, rules, users)) if rules and rules.ruled else []


def _commands(cluster: str, rules: Accounting) -> Iterator[str]:
    yield f"add cluster {cluster}"
    names = [name for name, _ in rules.qos]
    for name in names:
        if name != _NORMAL:
            yield f"add qos {name}"
    # All are there before one names another.
    for name, each in rules.qos:
        yield f"modify qos {name} set {_values(each)}"
    allowed = ",".join(dict.fromkeys([_NORMAL, *names]))
    for account, share in _accounts(rules):
        yield f"add account {account} Cluster={cluster}"
        where = f"where Name={account} Cluster={cluster}"
        yield f"modify account {where} set Fairshare={share} QOS={allowed}"
    yield from _shares(cluster, rules, rules.users)


def _shares(cluster: str, rules: Accounting, users: Sequence[str]) -> Iterator[str]:
    """Each user counts in each account, and the shares of all in one are equal."""
    accounts = [account for account, _ in _accounts(rules)]
    for user in users:
        for account in accounts:
            yield f"add user {user} Account={account} Cluster={cluster}"
        where = f"where Name={user} Cluster={cluster}"
        yield f"modify user {where} set DefaultAccount={accounts[0]}"


def _accounts(rules: Accounting) -> tuple[tuple[str, int], ...]:
    return rules.accounts or ((_DEFAULT, 1),)


def _values(qos: Qos) -> str:
    # -1 takes a limit away that an earlier configuration had.
    most = -1 if qos.max_nodes_per_user is None else qos.max_nodes_per_user
    preempts = ",".join(qos.preempts)
    return f"Priority={qos.priority} MaxTRESPerUser=node={most} Preempt={preempts}"
