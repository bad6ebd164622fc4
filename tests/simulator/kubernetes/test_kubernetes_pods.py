"""Pods on their nodes: streams, signals, volumes, environment, images.

kubernetes.io/docs: concepts/workloads/pods/pod-lifecycle (phases, termination, restarts),
concepts/storage/volumes, tasks/inject-data-application; exec's channels:
k8s.io/apimachinery/pkg/util/remotecommand (v5.channel.k8s.io).
"""

import json
import os
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from namespaces import Space
from waiting import until

from fairway_simulator.kubernetes import Kubelet, KubernetesCluster, NodeSpec
from fairway_simulator.kubernetes.client import Client
from fairway_simulator.kubernetes.cluster import kubectl_program
from fairway_simulator.kubernetes.kubelet import volumes
from fairway_simulator.kubernetes.kubelet.host import Network, NetworkFailed, network

_SERVES = "trap 'exit 143' TERM; while :; do sleep 0.1; done"


def _pod(name: str, command: str, **more: Any) -> dict[str, Any]:
    container = {"name": "task", "image": "sim", "command": ["bash", "-c", command]}
    container |= more.pop("container", {})
    spec = {"restartPolicy": "Never", "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _ended(space: Space, name: str) -> dict[str, Any]:
    space.wait(f"pod/{name}", "jsonpath={.status.containerStatuses[0].state.terminated}")
    state = space.get("pod", name)["status"]["containerStatuses"][0]["state"]["terminated"]
    return dict(state)


def _ready(cluster: KubernetesCluster, pod: dict[str, Any]) -> None:
    """Creates a pod, and waits until it is ready."""
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    name = f"pod/{pod['metadata']['name']}"
    cluster.kubectl("wait", "--for=condition=Ready", name, "--timeout=280s")


def test_kubernetes_pod_token_is_replaced_before_it_expires(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubernetes.io/docs: tasks/configure-pod-container/configure-service-account, "Launch a Pod
    using service account token projection"."""
    monkeypatch.setattr(volumes, "_AGE", 0.0002)
    file = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    command = f'old=$(<{file}); until [[ $(<{file}) != "$old" ]]; do sleep 0.1; done'
    space.create(_pod("keeping", command))
    assert _ended(space, "keeping")["exitCode"] == 0


@pytest.fixture
def serving(space: Space) -> str:
    """The name of a pod that runs until it is deleted."""
    space.create(_pod("serving", _SERVES))
    space.wait("pod/serving", "Ready")
    return "serving"


def test_kubernetes_exec_gives_a_terminal(space: Space, serving: str) -> None:
    words = [kubectl_program(), "-n", space.name, "exec", "-it", serving, "--", "tty"]
    done = subprocess.run(
        ["script", "-qec", " ".join(words), "/dev/null"],
        env={**os.environ, "KUBECONFIG": str(space.kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    assert b"/dev/pts/" in done.stdout


def test_kubernetes_exec_into_an_ended_pod_is_refused(space: Space) -> None:
    space.create(_pod("over", "exit 0"))
    _ended(space, "over")
    space.wait("pod/over", "jsonpath={.status.phase}=Succeeded")
    message = space.refused("exec", "over", "--", "true")
    assert "cannot exec into a container in a completed pod; current phase is Succeeded" in message


def test_kubernetes_pod_that_ignores_sigterm_is_killed_after_its_grace(space: Space) -> None:
    line = "trap '' TERM; while :; do sleep 0.1; done"
    space.create(_pod("deaf", line, terminationGracePeriodSeconds=1))
    space.wait("pod/deaf", "Ready")
    space.do("delete", "pod", "deaf")  # kubectl waits until it is gone


def test_kubernetes_pod_address_is_unique_until_it_is_released() -> None:
    """A head pod outlives hundreds of other pods."""
    addresses = Network("127.1.1")
    kept = addresses.address()
    for _ in range(1_000):
        other = addresses.address()
        assert other != kept
        addresses.give_back(other)
    assert len({addresses.address() for _ in range(252)}) == 252
    with pytest.raises(NetworkFailed, match="no address is free"):
        addresses.address()
    addresses.give_back(kept)
    assert addresses.address() == kept


def test_kubernetes_pod_waits_for_a_free_address(tmp_path: Path) -> None:
    with KubernetesCluster(tmp_path / "k", nodes=1, private=False) as cluster:
        held = []
        with suppress(NetworkFailed):
            while True:
                held.append(cluster.network.address())
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(_pod("p", "exit 0")))
        waiting = "jsonpath={.items[?(@.reason=='FailedCreatePodSandBox')].message}"
        until(lambda: "no address is free" in cluster.kubectl("get", "events", "-o", waiting))
        cluster.network.give_back(held.pop())
        ended = "jsonpath={.status.phase}=Succeeded"
        cluster.kubectl("wait", f"--for={ended}", "pod/p", "--timeout=280s")


def test_kubernetes_pods_have_separate_processes_and_files(space: Space) -> None:
    space.create(_pod("one", f"touch /tmp/mine /dev/shm/mine; {_SERVES}"))
    space.wait("pod/one", "Ready")
    space.create(_pod("two", "ls /tmp /dev/shm; pgrep -c -f http.server; echo $$"))
    _ended(space, "two")
    said = space.do("logs", "two")
    assert "mine" not in said
    assert said.split()[-1] == "1"  # the pod has its own process 1


def test_kubernetes_pod_mounts_memory_scratch_and_config_map_volumes(space: Space) -> None:
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
    space.create({**about, "data": {"conf.ini": "x=1"}})
    volumes = [
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "conf", "configMap": {"name": "conf", "defaultMode": 0o400}},
    ]
    places = {"memory": "/dev/shm", "scratch": "/scratch/deep", "conf": "/etc/conf"}
    mounts = [{"name": name, "mountPath": place} for name, place in places.items()]
    line = (
        "exec 2>/dev/null; stat -fc %T /dev/shm; echo x > /scratch/deep/x; "
        "stat -c %a /etc/conf/conf.ini; cat /etc/conf/conf.ini; echo; "
        "head -c 2M /dev/zero > /dev/shm/much || echo full"
    )
    space.create(_pod("v", line, volumes=volumes, container={"volumeMounts": mounts}))
    assert _ended(space, "v")["exitCode"] == 0
    assert space.do("logs", "v").split() == ["tmpfs", "400", "x=1", "full"]


def test_kubernetes_pod_with_an_unknown_image_waits_in_image_pull_back_off(space: Space) -> None:
    space.create(_pod("p", "true", container={"image": "nowhere.io/nope:1"}))

    def waits() -> dict[str, str]:
        (container,) = space.get("pod", "p")["status"].get("containerStatuses") or [{}]
        found: dict[str, str] = container.get("state", {}).get("waiting", {})
        return found if found.get("reason") == "ImagePullBackOff" else {}

    assert until(waits)["message"].startswith('Back-off pulling image "nowhere.io/nope:1"')
    assert space.get("pod", "p")["status"]["phase"] == "Pending"
    assert "is waiting to start" in space.refused("logs", "p")
    assert "sends logs whole" in space.refused("logs", "p", "--tail=1")


def test_kubernetes_pod_with_restart_policy_always_is_restarted(space: Space) -> None:
    space.create(
        _pod(
            "p",
            f"echo $RANDOM; [ -e /tmp/x ] && {{ {_SERVES}; }}; touch /tmp/x",
            restartPolicy="Always",
        )
    )
    space.wait("pod/p", "jsonpath={.status.containerStatuses[0].restartCount}=1")
    space.wait("pod/p", "Ready")


def test_kubernetes_pod_over_its_empty_dir_limit_is_evicted(space: Space) -> None:
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    line = f"head -c 3M /dev/zero > /scratch/deep; {_SERVES}"
    space.create(_pod("p", line, volumes=volumes, container={"volumeMounts": mounts}))
    space.wait("pod/p", "jsonpath={.status.phase}=Failed")
    status = space.get("pod", "p")["status"]
    said = 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
    assert (status["reason"], status["message"]) == ("Evicted", said)
    # Fairway treats this as a failure, not as a disruption that Kubernetes retries.
    assert "DisruptionTarget" not in {each["type"] for each in status["conditions"]}


class TestFoldersOfNodes:
    """A pod's folder on the local disks of its node."""

    DISKS = "/mnt/resource_nvme/fairway"

    def pod(self, name: str, node: str, path: str = DISKS, **sub: str) -> dict[str, Any]:
        field = {"fieldRef": {"fieldPath": "metadata.name"}}
        mount = {"name": "s", "mountPath": "/scratch", **(sub or {"subPathExpr": "$(ID)"})}
        container = {"env": [{"name": "ID", "valueFrom": field}], "volumeMounts": [mount]}
        volumes = [{"name": "s", "hostPath": {"path": path, "type": "Directory"}}]
        line = f"stat -c %a /scratch; echo {name} > /scratch/{name}; ls /scratch; {_SERVES}"
        chosen = {"kubernetes.io/hostname": node}
        return _pod(name, line, container=container, volumes=volumes, nodeSelector=chosen)

    @pytest.mark.parametrize(
        ("path", "sub", "said"),
        [
            (DISKS, {}, "hostPath type check failed: /mnt/resource_nvme/fairway is not a"),
            ("/etc/hostname", {}, "hostPath type check failed: /etc/hostname is not a directory"),
            ("/", {"subPathExpr": "$(NOBODY)"}, "failed to expand subPath: missing value for $(N"),
            ("/", {"subPath": "p"}, "the stand-in has no subPath"),
        ],
        ids=["no disks", "no folder", "no variable", "a plain path"],
    )
    def test_kubernetes_pod_with_an_invalid_host_path_stays_pending(
        self, space: Space, path: str, sub: dict[str, str], said: str
    ) -> None:
        space.create(self.pod("p", "sim-0", path, **sub))

        def is_said() -> bool:
            events = space.items("events", "--field-selector", "involvedObject.name=p")
            waiting = space.get("pod", "p").get("status", {}).get("containerStatuses") or [{}]
            why = (waiting[0].get("state") or {}).get("waiting", {}).get("message", "")
            return any(said in text for text in [why, *(each["message"] for each in events)])

        until(is_said)
        assert space.get("pod", "p")["status"]["phase"] == "Pending"

    @pytest.mark.parametrize(
        ("spec", "said"),
        [
            ({"hostPID": True}, "hostPID: the stand-in's nodes give no pod rights"),
            ({"initContainers": [{"name": "i", "image": "sim"}]}, "initContainers: the stand-in's"),
        ],
    )
    def test_kubernetes_pod_that_is_privileged_stays_pending(
        self, space: Space, spec: dict[str, Any], said: str
    ) -> None:
        """For example a pod of the node setup, which formats disks."""
        container = {"securityContext": {"privileged": True}}
        space.create(_pod("p", "true", container=container, **spec))
        about = "involvedObject.name=p,reason=FailedMount"
        events = until(lambda: space.items("events", "--field-selector", about))
        assert said in events[0]["message"]
        assert space.get("pod", "p")["status"]["phase"] == "Pending"


def test_kubernetes_pods_can_share_the_network_of_this_machine(tmp_path: Path) -> None:
    """It serves users who may not create networks, and pods that need services on loopback."""
    with KubernetesCluster(tmp_path / "k", nodes=1, private=False) as cluster:
        for name in ("a", "b"):
            line = "exec python3 -m http.server 8765 --bind $IP"
            field = {"fieldRef": {"fieldPath": "status.podIP"}}
            env = {"env": [{"name": "IP", "valueFrom": field}]}
            _ready(cluster, _pod(name, line, container=env))
        addresses = cluster.kubectl(
            "get", "pods", "-o", "jsonpath={.items[*].status.podIP}"
        ).split()
        assert len(set(addresses)) == 2
        ask = f"until exec 3<>/dev/tcp/{addresses[0]}/8765; do sleep 0.05; done; hostname"
        assert cluster.kubectl("exec", "b", "--", "bash", "-c", ask) == "b\n"


def test_kubernetes_nodes_serve_any_api_server(tmp_path: Path) -> None:
    """The nodes need only a kubeconfig of the server."""
    with KubernetesCluster(tmp_path / "k", nodes=[]) as cluster:
        folder = tmp_path / "nodes"
        folder.mkdir()
        client = Client.of_kubeconfig(cluster.kubeconfig)
        kubelet = Kubelet(client, folder, [NodeSpec("foreign")], network(private=True))
        kubelet.start()
        try:
            cluster.kubectl("create", "-f", "-", stdin=json.dumps(_pod("p", "exit 3")))
            ended = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=3"
            cluster.kubectl("wait", f"--for={ended}", "pod/p", "--timeout=280s")
        finally:
            kubelet.stop()


def test_kubernetes_cluster_leaves_no_process_or_port_after_its_end(tmp_path: Path) -> None:
    with KubernetesCluster(tmp_path / "k", nodes=1) as cluster:
        _ready(cluster, _pod("p", "exec sleep 98765"))
        url = cluster.url
    found = subprocess.run(["pgrep", "-f", "sleep 98765"], capture_output=True)
    assert found.returncode == 1, found.stdout
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)


_LENT = "ls /dev | grep -x 'nvidia[0-9]*' | xargs; [ -c /dev/null ] && echo ok; read -r _ </go/gate"


def test_kubernetes_container_gets_exclusive_gpu_devices(space: Space, tmp_path: Path) -> None:
    """A container sees only its own device files, by the node's numbers, until it ends."""
    gates = {}
    volume = {"name": "go", "mountPath": "/go"}

    def start(name: str, count: int) -> str:
        folder = tmp_path / name
        folder.mkdir()
        os.mkfifo(folder / "gate")
        gates[name] = folder / "gate"
        asked = {"resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        container = {**asked, "volumeMounts": [volume]}
        there = [{"name": "go", "hostPath": {"path": str(folder)}}]
        chosen = {"kubernetes.io/hostname": "sim-0"}
        made = _pod(name, _LENT, container=container, volumes=there, nodeSelector=chosen)
        space.create(made)
        space.wait(f"pod/{name}", "Ready")
        return name

    def end(name: str) -> list[str]:
        gates[name].write_text("go\n")
        assert _ended(space, name)["exitCode"] == 0
        return space.do("logs", name).splitlines()

    names = [start("a", 3), start("b", 5)]
    assert end("a") == ["nvidia0 nvidia1 nvidia2", "ok"]
    assert end(start("c", 2)) == ["nvidia0 nvidia1", "ok"]
    assert end(names[1]) == ["nvidia3 nvidia4 nvidia5 nvidia6 nvidia7", "ok"]
