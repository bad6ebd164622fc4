"""The nodes that Batch has given the task that runs here."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.allocators.hosts import Host
from fairway_agent.allocators.machine import Ledger, owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.resources import Devices, Share, Wanted


def given() -> list[Host]:
    """The task's nodes, the main one first; `localhost` where it has one. Batch's list has no order
    that a document names: the main node has a variable of its own."""
    listed = os.environ.get("AZ_BATCH_HOST_LIST", "")
    nodes = [host for host in listed.split(",") if host]
    if len(nodes) < 2:
        return [Host("localhost", "localhost")]
    main = os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")[0]
    return [Host(each, each) for each in (main, *(node for node in nodes if node != main))]


def share_of(devices: Devices, wanted: Wanted) -> Share | None:
    """Allocates a task its share of the node; None while an earlier task holds too much. NeverFits
    if the node is too small. All tasks of a pool run as one user, and see the folder."""
    folder = Path(os.environ["AZ_BATCH_NODE_SHARED_DIR"], "fairway-devices")
    return Ledger(owned(folder) / "node").take(devices, wanted)


def own_address(hosts: Sequence[Host]) -> str:
    """This node's own among the addresses: the one that a socket can be bound to.
    FAIRWAY_NODE_ADDRESS says it where one machine has several of them."""
    addresses = [host.address for host in hosts]
    told = os.environ.get("FAIRWAY_NODE_ADDRESS", "")
    if told in addresses:
        return told
    for address in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return address
    raise OSError(f"none of {', '.join(addresses)} is an address of this node")
