"""The boot of Slurm's scheduler, login nodes and nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fairway_constructs.arguments import checked
from fairway_constructs.cloud_init import (
    LONGEST_PACKED,
    boot_package,
    node_cloud_init,
    packed_size,
    script,
)
from fairway_core import archives, local_disks
from fairway_core.catalog.images import SERVER_IMAGE, image
from fairway_core.findings import UserError, counted
from fairway_core.slurm import accounting_commands, cloud_programs, node_scripts, render
from fairway_core.slurm.cluster import PROGRAMS, SLURMCTLD_PORT
from fairway_core.slurm.rendering import TOPOLOGY
from fairway_core.slurm.scripts import LIBRARY, LOG, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cloud_init.mounts import MachineProxy, Mount
    from fairway_core.slurm import NodeFacts, Packages, SlurmCluster

# The mount point of the disk with the scheduler's state.
STATE = "/var/lib/fairway-slurm"

# The public key of Slurm's package repository.
_KEY = "/etc/apt/keyrings/fairway-slurm.asc"

# A port of the loopback address. Only root can listen below 1024, and NFS takes ports from 665 on.
# Source: Linux, Documentation/admin-guide/kernel-parameters (sunrpc.min_resvport).
_TOKENS_PORT = 643

# Slurm checks for idle nodes every half minute, and deletes them gradually.
_UNTIL_DELETED = 120


@checked
@dataclass(frozen=True, kw_only=True)
class SlurmNode:
    """Settings of a VM as a node: its partition, the scheduler's address, the vault of the key.

    `client_id` is that of the identity with which it reads the key; `facts` are the expectations of
    its health check; the secrets of users' jobs are in `people_vault`, or "". `packages` are the
    scheduler's too. All but these, `partition` and `facts` may be references.

    >>> SlurmNode(partition="nd", scheduler=scheduler.address, vault=slurm.vault_url,
    ...           client_id=slurm.nodes.client_id, facts=NodeFacts(gpus=8),
    ...           packages=Packages(version="23.11"))
    """

    partition: str
    scheduler: str
    vault: str
    client_id: str
    facts: NodeFacts
    packages: Packages
    people_vault: str = ""

    def extension(self) -> dict[str, Any]:
        """Returns variables of `slurm_node.yaml.j2`, which adds files to those of every node."""
        settings = {
            "scale_sets": {},
            "partition": self.partition,
            "scheduler": f"{self.scheduler}:{SLURMCTLD_PORT}",
            "vault": self.vault,
            "client_id": self.client_id,
            "check": [f"{PROGRAMS}/health-check", "--before"],
        }
        if self.people_vault:
            settings["people_vault"] = self.people_vault
        return {
            **_programs(settings, archives.NODE, self.packages),
            "scripts": node_scripts(self.facts, scratch=local_disks.FOLDER),
            "tokens_port": _TOKENS_PORT,
            "has_people_vault": bool(self.people_vault),
        }


def scheduler_cloud_init(
    cluster: SlurmCluster,
    *,
    scale_sets: Mapping[str, str],
    vault: str,
    client_id: str,
    mounts: Sequence[Mount],
    addresses: str,
    proxy: MachineProxy | None = None,
) -> str:
    """Returns the cloud-config of the VM that runs slurmctld of that cluster; `scale_sets` are the
    ids of the partitions', and `addresses` a pattern of those of nodes.

    It mounts the file systems of its nodes, and the login user reaches nodes with their shared key.
    Raises UserError if Azure would refuse it for its size, as with many partitions.
    """

    assert cluster.cloud is not None, "its nodes come and go"
    settings: dict[str, Any] = {
        # With the number of permanent nodes.
        "scale_sets": {
            each.name: {"id": scale_sets[each.name], "kept": each.kept}
            for each in cluster.partitions
            if each.name in scale_sets
        },
        "client_id": client_id,
        "vault": vault,
        "state": f"{STATE}/nodes",
        "claim_address": "0.0.0.0",  # noqa: S104 - the network admits the nodes' subnet alone
        "log": LOG,
        "hold": cluster.cloud.idle + _UNTIL_DELETED,
    }
    patterns = _host_patterns(cluster, addresses)

    def text_for(cluster: SlurmCluster, settings: Mapping[str, Any]) -> str:
        more = {
            **_programs(settings, archives.SCHEDULER, cluster.packages),
            "files": render(cluster),
            "scripts": cloud_programs(proxy=proxy is not None),
            "accounting": cluster.accounting is not None,
            "rules": accounting_commands(cluster),
            "scheduler_script": script("slurm_scheduler.sh"),
            "key_script": script("munge_key.sh"),
            # As for the disks of file servers.
            "volume_script": script("nfs_server.sh"),
            "disk_settings": {"NAME": "slurm", "DISKS": 1, "EXPORT": STATE},
            "state": STATE,
            "log": LOG,
        }
        return _of_server(
            "slurm_scheduler.yaml.j2", more, mounts=mounts, host_patterns=patterns, proxy=proxy
        )

    text = text_for(cluster, settings)
    if (size := packed_size(text)) > LONGEST_PACKED:
        one = replace(cluster, partitions=cluster.partitions[:1])
        partitions = size - packed_size(text_for(one, {**settings, "scale_sets": {}}))
        rules = cluster.accounting and replace(cluster.accounting, accounts=(), qos=())
        accounts = size - packed_size(text_for(replace(cluster, accounting=rules), settings))
        raise _too_long(cluster, size, partitions, accounts)
    return text


def _too_long(cluster: SlurmCluster, size: int, partitions: int, accounts: int) -> UserError:
    """Returns the error for too much boot data, and what is most of it: further partitions, or
    accounts and their rules; both are in bytes."""
    message = f"the Slurm scheduler boots with {size} bytes, compressed, and at most "
    message += f"{LONGEST_PACKED} fit; {max(partitions, accounts)} of them are its "
    if accounts > partitions:
        message += "accounts and qualities of service"
        return UserError.of("too-many-partitions", message, "name fewer of them")
    message += counted(len(cluster.partitions), "partition")
    hint = "make one cluster of those with the same size, which takes no more room with more "
    hint += "nodes, drop some, or split them over several environments"
    return UserError.of("too-many-partitions", message, hint)


def _host_patterns(cluster: SlurmCluster, addresses: str) -> list[str]:
    return [addresses, *(f"{each.name}-*" for each in cluster.partitions)]


def _of_server(
    template: str,
    more: Mapping[str, Any],
    *,
    mounts: Sequence[Mount],
    host_patterns: Sequence[str],
    proxy: MachineProxy | None,
) -> str:
    """Returns the cloud-config of a Slurm VM that runs no jobs, with the image of such VMs."""
    return node_cloud_init(
        cluster="",
        mounts=mounts,
        nfs_client_package=image(SERVER_IMAGE).nfs_client_package,
        host_patterns=host_patterns,
        announced=False,
        template=template,
        proxy=proxy,
        more=more,
    )


def login_cloud_init(
    cluster: SlurmCluster,
    *,
    vault: str,
    client_id: str,
    mounts: Sequence[Mount],
    addresses: str,
    proxy: MachineProxy | None = None,
) -> str:
    """Returns the cloud-config of a VM from which users submit to that cluster; its identity reads
    the key from the vault. `addresses` is a pattern of those of nodes."""
    patterns = _host_patterns(cluster, addresses)
    settings = {"scale_sets": {}, "vault": vault, "client_id": client_id}
    files = render(cluster).items()
    more = {
        **_programs(settings, archives.LOGIN, cluster.packages),
        "scripts": {},
        "files": {name: text for name, text in files if name in ("slurm.conf", TOPOLOGY)},
    }
    return _of_server(
        "slurm_login.yaml.j2", more, mounts=mounts, host_patterns=patterns, proxy=proxy
    )


def _programs(
    settings: Mapping[str, Any], modules: Sequence[str], packages: Packages
) -> dict[str, Any]:
    return {
        **boot_package(LIBRARY, modules),
        "slurm": packages,
        "slurm_key": _KEY,
        "settings_file": SETTINGS,
        "settings_text": json.dumps(settings, indent=1),
        "programs": PROGRAMS,
    }
