"""A real API server, named by FAIRWAY_KUBECONFIG, accepts all that an environment applies in its
cluster, without storing any of it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from ruamel.yaml import YAML
from tests.stacks.documents import FILES, Written

from fairway_simulator.kubernetes.cluster import kubectl_program

pytestmark = pytest.mark.nightly

CLUSTERS = [file for file in FILES.values() if "engine: kubernetes" in file.read_text()]
# Kinds that other software installs in the cluster: Flux, NVIDIA's operators and Kueue.
FOREIGN = {f"{each}.toolkit.fluxcd.io" for each in ("source", "helm", "kustomize")}
FOREIGN |= {"mellanox.com", "nfd.k8s-sigs.io", "kueue.x-k8s.io"}


@pytest.mark.parametrize("file", CLUSTERS, ids=lambda file: file.stem)
def test_kubernetes_server_accepts_every_manifest_of_an_environment(
    written: Written, file: Path
) -> None:
    kubeconfig = os.environ.get("FAIRWAY_KUBECONFIG")
    if kubeconfig is None:
        pytest.skip("only a real control plane can be asked this")
    blobs = written(file)["compute"]["resource"]["azurerm_storage_blob"].values()
    taken = [each for blob in blobs for each in _manifests(blob["source_content"])]
    assert {each["kind"] for each in taken} >= {"DaemonSet", "ValidatingAdmissionPolicy", "Role"}

    def apply(items: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        words = ["--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server"]
        command = [kubectl_program(), "--kubeconfig", kubeconfig, "apply", *words, "-f", "-"]
        sent = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        return finished(command, input=sent)

    done = apply(taken)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(taken)
    # An expression that does not parse, and an unknown field.
    (policy, *_) = (each for each in taken if each["kind"] == "ValidatingAdmissionPolicy")
    policy["spec"]["validations"][0]["expression"] = "object.("
    assert "Syntax error" in apply([policy]).stderr
    (pods, *_) = (each for each in taken if each["kind"] == "DaemonSet")
    pods["spec"]["template"]["spec"]["hostNetworks"] = True
    assert "hostNetworks" in apply([pods]).stderr


def _manifests(text: str) -> list[dict[str, Any]]:
    """Parses objects of Kubernetes' own kinds, in an existing namespace, as theirs is not
    stored."""
    found = list(filter(None, YAML(typ="safe", pure=True).load_all(text.replace("$${", "${"))))
    for each in found:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = "default"
    return [each for each in found if each["apiVersion"].partition("/")[0] not in FOREIGN]
