"""The supervisor of a run on a cluster: the local one, with nodes in place of cores.

Started on the main host as `supervise FOLDER LOCK READY [retry]`; see
`engines.local.supervisor`. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fairway_runner.engines.local.supervisor import supervise
from fairway_runner.engines.remote.node.faults import Fault
from fairway_runner.engines.ssh.node import plans, vault
from fairway_runner.engines.ssh.node.queue import Queue
from fairway_runner.engines.ssh.node.room import Nodes
from fairway_runner.engines.ssh.node.task import HostTask


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    folder, lock, ready = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    plan = plans.read(folder, retry="retry" in sys.argv[4:])
    if plan["secrets"]:
        try:
            # Into this process's memory, and from there into that of the tasks.
            os.environ.update(vault.secrets_of(folder))
        except Fault as fault:
            sys.exit(str(fault))
    queue = Queue(folder.parents[1], plans.cluster(folder), folder.name, plans.priority(folder))
    room = Nodes(queue)
    supervise(folder, lock, ready, plan, room=room, task_type=HostTask)


if __name__ == "__main__":
    main()
