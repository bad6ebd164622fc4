"""Targets of Kubernetes clusters: valid fields, refused jobs, and the objects that are created."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from endings import ends, refused
from kubernetes_validate import validate
from pydantic import ValidationError
from ruamel.yaml import YAML
from running import RunFairway

from fairway_agent.shared.reports import NodeReport, NodesReport
from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_core.kubernetes.head import objects, rights, topologies
from fairway_core.kubernetes.pools import of_node
from fairway_core.target import Target
from fairway_runner.engines.capabilities import require_share
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.kubernetes.engine import KubernetesEngine
from fairway_runner.engines.kubernetes.exec import Exec
from fairway_runner.engines.remote.connection import Ended
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import load_job

ACCESS: dict[str, Any] = {
    "context": "lab",
    "namespace": "training",
    "image": "myregistry.azurecr.io/train:1",
    "shared": "/data/fairway",
    "volumes": {"data": "data-claim"},
    "selector": {"agentpool": "nd"},
    "rdma": "rdma/ib",
    "queue": "nd",
}
TARGET: dict[str, Any] = {
    "name": "nd",
    "engine": "kubernetes",
    "vm_size": "Standard_ND96isr_H100_v5",
    "nodes": {"min": 0, "max": 4},
    "mounts": {"data": "/data", "home": "/home"},
    "kubernetes": ACCESS,
}


def target(changes: Mapping[str, Any] | None = None, **access: Any) -> Target:
    facts = {**TARGET, **(changes or {}), "kubernetes": {**ACCESS, **access}}
    return Target.model_validate(facts)


def test_kubernetes_target_record_round_trips() -> None:
    found = target()
    assert Target.model_validate(json.loads(json.dumps(found.record()))) == found
    assert found.access is None


@pytest.mark.parametrize(
    ("access", "said"),
    [
        ({"volumes": {}}, "at least 1 item"),
        ({"volumes": {"other": "claim"}}, "there is no mount `other`"),
        ({"shared": "/home/fairway"}, "this is not below any of the `volumes`"),
        ({"shared": "/database"}, "this is not below any of the `volumes`"),
        ({"shared": "relative"}, "this is not below any of the `volumes`"),
        ({"namespace": "Training"}, "this is not a name of Kubernetes"),
        ({"namespace": "--all"}, "this is not a name of Kubernetes"),
        ({"queue": "a b"}, "this is not a name of Kubernetes"),
        ({"image": "-x"}, "begins with `-`"),
        ({"image": "Train:1"}, "`Train:1` is not a container image"),
        ({"head_image": "docker://python"}, "`docker://python` is not a container image"),
        ({"head_image": "python"}, "`python` is whatever its registry calls the latest"),
        ({"context": "lab\n"}, "control character"),
        ({"volumes": {"data": "a/b"}}, "this is not a name of Kubernetes"),
        ({"pool": "nd"}, "Extra inputs"),
        ({"priorities": {"urgent": "x"}}, "'low', 'normal' or 'high'"),
        ({"priorities": {"high": "a b"}}, "this is not a name of Kubernetes"),
        ({"priorities": {"high": "x"}, "queue": None}, "only Kueue keeps these"),
        ({"resources": {"cpu": "many"}}, "this is not an amount of Kubernetes"),
        ({"resources": {"memory": "-1Gi"}}, "this is not an amount of Kubernetes"),
        ({"resources": {"memory": "64GB"}}, "this is not an amount of Kubernetes"),
        ({"scratch": "scratch"}, "this is not an amount of Kubernetes"),
        ({"scratch": "/mnt/../etc"}, "this is not a folder of nodes"),
        ({"scratch": "/"}, "this is not a folder of nodes"),
        ({"scratch": "/mnt/$(A)"}, "this is not a folder of nodes"),
    ],
)
def test_kubernetes_target_refuses_invalid_access(access: dict[str, Any], said: str) -> None:
    with pytest.raises((UserError, FieldError, ValidationError), match=said):
        target(**access)


def test_kubernetes_target_requests_all_resources_of_a_node() -> None:
    assert of_node(target()) == {
        "cpu": "86",
        "memory": "1710Gi",
        "nvidia.com/gpu": "8",
        "rdma/ib": "8",
    }
    assert "rdma/ib" not in of_node(target(rdma=""))
    own = {"cpu": "4", "amd.com/gpu": "1"}
    assert of_node(target({"vm_size": ""}, resources=own)) == own
    refused(lambda: of_node(target({"vm_size": ""})), "neither a `vm_size` nor `resources`")


@pytest.mark.parametrize(
    ("resources", "job", "said"),
    [
        ({"cpu": "8"}, {"gpus": 1}, "a task needs 1 GPU, and a node of `nd` has none"),
        (None, {"gpus": 9}, "a task needs 9 GPUs, and a node of `nd` has 8"),
        # The VM size has 96, of which 86 are left for pods.
        (None, {"cores": 87}, "a task needs 87 cores, and a node of `nd` has 86"),
        ({"nvidia.com/gpu": "8"}, {"cores": 1}, "`nd` share is not known"),
    ],
)
def test_kubernetes_target_refuses_a_task_larger_than_a_node(
    resources: dict[str, str] | None, job: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    facts = {"name": "train", "template": "plain", "command": "true", "processes_per_node": 1}
    file.write_text(json.dumps(facts | job))
    where, job_file = target(resources=resources), load_job(file)
    refused(lambda: require_share(job_file.resolve(where), where, job_file.document), said)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"nodes": 5}, "the job needs 5 nodes, and `nd` has 4"),
        ({"priority": "high"}, "`nd` has no priority for `priority: high`"),
        ({"priority": 7}, "`nd` has no priority for `priority: 7`"),
        (
            {"container": {"image": "own:1", "options": ["--cap-add=SYS_PTRACE"]}},
            "`nd` does not support options of Docker: --cap-add=SYS_PTRACE",
        ),
    ],
)
def test_kubernetes_target_refuses_a_job_that_can_never_run(job: dict[str, Any], said: str) -> None:
    refused(lambda: KubernetesEngine(target()).require(job_of(**job), []), said)


def job_of(**fields: Any) -> Job:
    """Returns a job with one process per node."""
    facts = {"name": "train", "command": "true", "processes_per_node": 1, **fields}
    return Job.model_validate(facts)


def test_kubernetes_target_accepts_its_priorities_and_multi_node_containers() -> None:
    engine = KubernetesEngine(target(priorities={"high": "urgent"}))
    for priority in ("high", 500, "normal", 0):
        engine.require(job_of(priority=priority), [])
    finding = refused(
        lambda: engine.require(job_of(priority="low"), []), "no priority for `priority: low`"
    )
    assert finding.hint.startswith("it has high; leave it out")
    engine.require(job_of(nodes=4, container={"image": "own:1"}), [])


class TestPreparing:
    """Objects that are created in a cluster that Fairway does not manage."""

    @pytest.mark.parametrize("version", ["1.33", "1.37"])
    def test_kubernetes_prepare_objects_validate_against_each_server_version(
        self, version: str
    ) -> None:
        for found in [*objects(target()), *topologies([target()])]:
            validate(found, version, strict=True)

    def test_kubernetes_prepare_gives_the_head_only_the_rights_that_it_needs(self) -> None:
        found = {each["kind"]: each for each in objects(target())}
        rules = {
            (group, resource): rule["verbs"]
            for rule in [*found["Role"]["rules"], *found["ClusterRole"]["rules"]]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        assert ("", "secrets") not in rules
        assert ("", "pods/exec") not in rules
        assert rules["batch", "jobs"] == ["get", "list", "create", "delete"]
        assert all("*" not in (*key, *verbs) for key, verbs in rules.items())
        bindings = [found["RoleBinding"], found["ClusterRoleBinding"]]
        heads = [{"kind": "ServiceAccount", "name": "fairway-head", "namespace": "training"}]
        assert [each["subjects"] for each in bindings] == [heads, heads]
        for each in objects(target(namespace="another")):
            if each["kind"].startswith("ClusterRole"):  # of all namespaces
                assert each["metadata"]["name"] != found[each["kind"]]["metadata"]["name"]

    def test_kubernetes_prepare_forbidden_by_the_server_hints_at_print(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = "Error from server (Forbidden): roles is forbidden"
        given: list[tuple[Any, ...]] = []

        def ask(_: Exec, *words: str, deadline: float, data: bytes) -> Ended:
            assert deadline > 0
            given.append((words, data))
            return Ended(1, b"", said)

        monkeypatch.setattr(Exec, "ask", ask)
        finding = refused(engine_for(target()).prepare, "Kubernetes refuses it: Error from")
        assert "--print" in (finding.hint or "")
        [(words, data)] = given
        assert words == ("apply", "-f", "-")
        assert [each["kind"] for each in YAML(typ="safe").load_all(data.decode())] == [
            each["kind"] for each in [*objects(target()), *topologies([target()])]
        ]

    def test_kubernetes_prepare_is_left_to_flux_in_the_cluster_of_an_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Exec, "ask", None)  # is not called
        of_environment = target({"environment": "h100"})
        finding = refused(engine_for(of_environment).prepare, "in whose cluster Flux creates this")
        assert "--namespace fairway-flux" in (finding.hint or "")
        assert engine_for(of_environment).manifests() == engine_for(target()).manifests()

    def test_targets_prepare_requires_either_print_or_apply(self, here: RunFairway) -> None:
        for words in ((), ("--print", "--apply")):
            ends(here("targets", "prepare", "nd", *words), 2, "give either --print or --apply")

    def test_targets_prepare_refuses_the_local_target(self) -> None:
        refused(lambda: engine_for(Target.local()).prepare(), "`local` cannot be prepared")


NODE = NodeReport("nd-1", "ready", adapters="8")


def test_kubernetes_rights_include_kueue_only_for_a_target_with_a_queue() -> None:
    def kueues(nd: Target) -> list[str]:
        return [right for right in rights(nd) if "kueue" in right]

    assert "get clusterqueues.kueue.x-k8s.io" in kueues(target())
    assert kueues(target(queue=None)) == []
    assert rights(target())["list nodes"]
    assert not rights(target())["list events"]


class TestPods:
    """Pods that node names stand for."""

    NODES: ClassVar = (replace(NODE, pod="job-a-0-0-0-abcde"), replace(NODE, name="nd-2"))

    @pytest.fixture
    def entered(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], str]]:
        found: list[tuple[str, tuple[str, ...], str]] = []

        def enter(_: Exec, pod: str, words: Sequence[str], *, forward: str = "") -> int:
            found.append((pod, tuple(words), forward))
            return 7

        monkeypatch.setattr(Exec, "enter", enter)
        monkeypatch.setattr(KubernetesEngine, "look", lambda _: NodesReport(self.NODES))
        return found

    def test_kubernetes_shell_enters_the_pod_on_the_node_or_the_head(
        self, entered: list[tuple[str, tuple[str, ...], str]]
    ) -> None:
        engine = KubernetesEngine(target())
        assert engine.shell("nd-1", ["nvidia-smi"]) == 7
        assert engine.shell("job-b-0-0-0-fghij", forward="1:localhost:2") == 7
        assert engine.shell(None) == 7
        assert entered == [
            ("job-a-0-0-0-abcde", ("nvidia-smi",), ""),
            ("job-b-0-0-0-fghij", (), "1:localhost:2"),
            ("deploy/fairway-head", (), ""),
        ]

    @pytest.mark.usefixtures("entered")
    def test_kubernetes_shell_needs_a_pod_on_the_node_and_drain_a_known_node(self) -> None:
        shell = lambda: KubernetesEngine(target()).shell("nd-2")  # noqa: E731
        assert "kubectl debug node/nd-2" in refused(shell, "no pod of a run is on nd-2").hint
        with pytest.raises(UserError, match="`nd` has no node `nd-3`"):
            KubernetesEngine(target()).act_on_node("drain", "nd-3")
