"""`python -m fairway_simulator.slurm`: a Slurm cluster on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the folder is another's,
4 a program or a right is missing, 5 a daemon does not start.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from pathlib import Path

from fairway_simulator.private_file import make_own
from fairway_simulator.slurm.cluster import SlurmCluster
from fairway_simulator.slurm.daemon import DaemonFailed
from fairway_simulator.slurm.programs import missing
from fairway_simulator.variables import published

# As the repository's fairway.yaml has it.
SHARED = Path("/tmp/fairway-slurm-sim/shared")  # noqa: S108 - made so that it is one's own


def main() -> int:
    """Runs the cluster as the command line says."""
    options = _options()
    if lacking := missing():
        return _say(lacking, 4)
    if not make_own(SHARED.parent):
        return _say(f"{SHARED.parent} is not a folder of your own; remove it first", 2)
    # Before anything is started: a signal that comes early ends it as a later one does.
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    try:
        with SlurmCluster(nodes=options.nodes, shared=SHARED) as cluster:
            variables = {**cluster.environment, "SLURM_CONF": str(cluster.conf)}
            with published(variables, options.env):
                _say_ready(cluster, options.env)
                ending.wait()
    except DaemonFailed as failed:
        return _say(str(failed), 5)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/slurm-simulator",
        description="A Slurm cluster on this machine: real daemons, several nodes, and a login "
        "host that ssh reaches. It runs until interrupted, and prints the variables to set.",
    )
    parser.add_argument(
        "--env", type=Path, metavar="FILE", help="also write the variables there, once it is ready"
    )
    parser.add_argument("--nodes", type=_count, default=3, help="nodes of the partition `sim` (3)")
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("1 to 100")
    return number


def _say_ready(cluster: SlurmCluster, file: Path | None) -> None:
    names = ", ".join(cluster.node_names())
    sys.stderr.write(f"ready: {names}; ssh -F {cluster.login.ssh_config} {cluster.alias}\n")
    source = f"source {shlex.quote(str(file))}" if file else "set the variables above"
    sys.stderr.write(f"go on elsewhere: {source}, and\n")
    sys.stderr.write(
        f"  fairway submit examples/digits/job.yaml --target {cluster.alias} --watch\n"
    )


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"slurm-simulator: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
