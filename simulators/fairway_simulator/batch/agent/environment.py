"""The environment that the node agent gives to a task.

Source: the service's table of compute node environment variables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_simulator import machines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_simulator.batch.agent.layout import Layout
    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.job import Job
    from fairway_simulator.batch.model.pool import Node

# The port that the service reserves on a multi-instance task's main node.
MAIN_PORT = 6000


def of_node(account: Account, layout: Layout, node: Node) -> dict[str, str]:
    root = layout.root(node)
    # This machine's programs and our own Python stand for those of a pool's image.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {
        "PATH": programs,
        "LANG": "C.UTF-8",
        "USER": os.environ.get("USER", "root"),
        "AZ_BATCH_ACCOUNT_NAME": account.name,
        "AZ_BATCH_ACCOUNT_URL": f"{account.url}/",
        "AZ_BATCH_POOL_ID": node.pool.id,
        "AZ_BATCH_NODE_ID": node.id,
        "AZ_BATCH_NODE_IS_DEDICATED": "true" if node.dedicated else "false",
        "AZ_BATCH_NODE_ROOT_DIR": root,
        "AZ_BATCH_NODE_SHARED_DIR": f"{root}/shared",
        "AZ_BATCH_NODE_STARTUP_DIR": f"{root}/startup",
        "AZ_BATCH_NODE_STARTUP_WORKING_DIR": f"{root}/startup/wd",
        "AZ_BATCH_NODE_MOUNTS_DIR": f"{root}/fsmounts",
        **machines.SHARED_CORES,
        # A node of a real pool finds the metadata service at a link-local address.
        "FAIRWAY_METADATA_URL": f"{account.url}/simulator/metadata/{node.pool.id}/{node.id}",
    }


def of_shared_network(node: Node) -> dict[str, str]:
    """Returns further variables of a task for nodes that share this machine's interfaces; a node of
    a real pool queries its own interfaces instead."""
    return {"FAIRWAY_NODE_ADDRESS": node.address}


def of_job(job: Job, root: str) -> dict[str, str]:
    variables = {"AZ_BATCH_JOB_ID": job.id}
    if job.spec.get("jobPreparationTask"):
        folder = f"{root}/{job.folder}/{preparation_id(job)}"
        variables["AZ_BATCH_JOB_PREP_DIR"] = folder
        variables["AZ_BATCH_JOB_PREP_WORKING_DIR"] = f"{folder}/wd"
    return variables | settings(job.spec.get("commonEnvironmentSettings"))


def preparation_id(job: Job) -> str:
    """Returns the id of a job's preparation task, which is also the name of its folder."""
    return str(job.spec["jobPreparationTask"].get("id") or "jobpreparation")


def of_folder(task_id: str, folder: str) -> dict[str, str]:
    return {
        "AZ_BATCH_TASK_ID": task_id,
        "AZ_BATCH_TASK_DIR": folder,
        "AZ_BATCH_TASK_WORKING_DIR": f"{folder}/wd",
        "HOME": f"{folder}/wd",
    }


def of_instance(nodes: Sequence[Node], index: int, shared: str) -> dict[str, str]:
    """Returns the variables of a multi-instance task's instance; the first node is the main one.

    No document defines the order of the lists, so they have the main node last: see
    learn.microsoft.com/azure/batch/batch-compute-node-environment-variables.
    """
    main, *others = [node.address for node in nodes]
    addresses = [*others, main]
    pairs = " ".join(f"{address} 1" for address in addresses)
    return {
        "AZ_BATCH_HOST_LIST": ",".join(addresses),
        "AZ_BATCH_NODE_LIST": ";".join(addresses),
        "AZ_BATCH_MASTER_NODE": f"{main}:{MAIN_PORT}",
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "true" if index == 0 else "false",
        "AZ_BATCH_TASK_SHARED_DIR": shared,
        "CCP_NODES": f"{len(addresses)} {pairs}",
    }


def settings(entries: Iterable[dict[str, Any]] | None) -> dict[str, str]:
    return {entry["name"]: str(entry.get("value") or "") for entry in entries or ()}
