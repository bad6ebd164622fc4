"""The supervisor of a run on a cluster: the local one, with hosts in place of cores.

Started on the main host as `supervise FOLDER LOCK READY [retry]`; see
`fairway_agent.supervisor`. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fairway_agent import job_facts
from fairway_agent.allocators.cluster_nodes import Nodes, Queue, queue_of
from fairway_agent.azure import access
from fairway_agent.ssh.attempt import SshNodes
from fairway_agent.supervisor import supervise
from fairway_boot.files import Fault


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    folder, lock, ready = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        plan = job_facts.read_shared_plan(folder, retry="retry" in sys.argv[4:])
        if plan.secrets:
            # Into this process's memory, and from there into that of the tasks.
            os.environ.update(access.secrets_of(folder))
        target = job_facts.of_target(folder)
        place = queue_of(target.queue, folder.parents[1], target.name)
        queue = Queue(place, target.name, folder.name)
        supervise(folder, lock, ready, plan, allocator=Nodes(queue), nodes=SshNodes())
    except Fault as fault:
        sys.exit(fault.said)


if __name__ == "__main__":
    main()
