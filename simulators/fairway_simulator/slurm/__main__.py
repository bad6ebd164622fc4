"""`python -m fairway_simulator.slurm`: a Slurm cluster on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the folder belongs to another, 4 a
program or a permission is missing, 5 a daemon does not start.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_simulator.command import StandInCommand, interrupted, make_own, number, published
from fairway_simulator.slurm.cluster import SlurmCluster
from fairway_simulator.slurm.daemon import DaemonFailed, missing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

# The path in the repository's fairway.yaml.
SHARED = Path("/tmp/fairway-slurm-sim/shared")  # noqa: S108 - refused unless this user owns it
_COMMAND = StandInCommand("slurm-simulator", "fairway_simulator.slurm")
_SUBMIT = f"fairway submit examples/digits/job.yaml --target {SlurmCluster.alias} --watch"


def main() -> int:
    options = _options()
    if lacking := missing():
        return _COMMAND.say(lacking, 4)
    if not make_own(SHARED.parent):
        return _COMMAND.say(f"{SHARED.parent} is not a folder of your own; remove it first", 2)
    following = f"source FILE && {_SUBMIT}"
    return _COMMAND.run(options, lambda ready: _serve(options, ready), following)


def _serve(options: argparse.Namespace, ready: Callable[[], None]) -> int:
    """Runs the cluster until a signal ends it; reports when it is ready."""
    wait = interrupted()
    try:
        with SlurmCluster(nodes=options.nodes, shared=SHARED) as cluster:
            variables = {**cluster.environment, "SLURM_CONF": str(cluster.conf)}
            with published(variables, options.env, _COMMAND.process):
                _say_ready(cluster, options)
                ready()
                wait()
    except DaemonFailed as failed:
        return _COMMAND.say(str(failed), 5)
    return 0


def _options() -> argparse.Namespace:
    parser = _COMMAND.parser(
        "A Slurm cluster on this machine: real daemons, several nodes, and a login host that ssh "
        "reaches. It runs until interrupted, and prints the variables to set."
    )
    parser.add_argument(
        "--nodes", type=number(1, 100), default=3, help="nodes of the partition `sim` (3)"
    )
    return parser.parse_args()


def _say_ready(cluster: SlurmCluster, options: argparse.Namespace) -> None:
    names = ", ".join(cluster.node_names())
    sys.stderr.write(f"ready: {names}; ssh -F {cluster.login.ssh_config} {cluster.alias}\n")
    if not options.background:
        file = options.env
        source = f"source {shlex.quote(str(file))}" if file else "set the variables above"
        sys.stderr.write(f"go on elsewhere: {source}, and\n  {_SUBMIT}\n")


if __name__ == "__main__":
    sys.exit(main())
