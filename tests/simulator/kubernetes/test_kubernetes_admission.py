"""Admission policies: the namespace of jobs refuses each pod with which a submitter would take over
a node, and the health check of a node changes no other node."""

import copy
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from programs import finished
from targets import target_of
from waiting import until

from fairway_agent.kubernetes.api import CORDONED, MACHINE
from fairway_agent.kubernetes.objects import REQUESTED
from fairway_core.kubernetes import documents, health
from fairway_core.kubernetes.admission import policy, policy_of_head
from fairway_core.kubernetes.node_setup import SCRATCH
from fairway_core.kubernetes.pools import ON_SYSTEM
from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.policies import require_change
from fairway_simulator.kubernetes.api.requests import ApiError, Identity
from fairway_simulator.kubernetes.api.resources import (
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
)
from fairway_simulator.kubernetes.api.store import Store
from fairway_simulator.kubernetes.cluster import kubectl_program

# Unique names: others may use the server too.
SPACE, OTHER = (f"{name}-{secrets.token_hex(4)}" for name in ("training", "other"))
TARGET = target_of(
    "kubernetes",
    {
        "namespace": SPACE,
        "tolerations": ["fairway.dev/pool"],
        "head_tolerations": ["CriticalAddonsOnly"],
        "scratch": SCRATCH,
    },
    vm_size="Standard_ND96isr_H100_v5",
)
TASK: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "task"},
    "spec": {
        "serviceAccountName": "fairway-task",
        "containers": [
            {
                "name": "task",
                "image": "a:1",
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            }
        ],
        "tolerations": [{"key": "fairway.dev/pool", "operator": "Exists"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    },
}

Change = dict[str, Any]

ON_NODE: Change = {"volumes": [{"name": "s", "hostPath": {"path": SCRATCH, "type": "Directory"}}]}
OWN = {"name": "_FAIRWAY_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}


def mounted(*env: Change, **mount: str) -> Change:
    """Returns a container that mounts the node's scratch."""
    at = {"name": "s", "mountPath": "/var/tmp", **mount}
    return {"volumeMounts": [at], "env": list(env)}


@pytest.fixture(scope="module")
def admit() -> Iterator[Callable[..., Any]]:
    """Admits the task's pod with changes of its spec and of its container, on the stand-in or as a
    dry run on the server that FAIRWAY_KUBECONFIG names."""
    named = os.environ.get("FAIRWAY_KUBECONFIG")
    with _real(named) if named else nullcontext(_stand_in()) as create:

        def admit(
            spec: Change,
            container: Change | None = None,
            namespace: str = SPACE,
            annotations: dict[str, str] | None = None,
        ) -> None:
            pod = copy.deepcopy(TASK)
            pod["metadata"]["annotations"] = annotations or {}
            pod["spec"] |= spec
            pod["spec"]["containers"][0] |= container or {}
            create(pod, namespace)

        yield admit


def _stand_in() -> Callable[[Change, str], Any]:
    _, admission = _cluster()
    return lambda pod, namespace: admission.new(PODS, pod, namespace, "Strict")


def _cluster() -> tuple[Store, Admission]:
    store = Store()
    admission = Admission(store)
    for name in (SPACE, OTHER):
        store.create(NAMESPACES, admission.new(NAMESPACES, {"metadata": {"name": name}}, "", ""))
    for resource, found in zip((POLICIES, POLICY_BINDINGS), policy([TARGET]), strict=True):
        store.create(resource, admission.new(resource, found, "", "Strict"))
    return store, admission


@contextmanager
def _real(kubeconfig: str) -> Iterator[Callable[[Change, str], Any]]:
    def kubectl(*words: str, sent: Any = None) -> str:
        command = [kubectl_program(), "--kubeconfig", kubeconfig, *words]
        text = None if sent is None else json.dumps(sent)
        done = finished(command, input=text)
        if done.returncode:
            raise ApiError(403, done.stderr)
        return done.stdout

    def create(pod: Change, namespace: str) -> None:
        kubectl("create", "-f", "-", "-n", namespace, "--dry-run=server", sent=pod)

    def is_in_force() -> bool:
        try:
            kubectl("create", "-f", "-", "-n", SPACE, "--dry-run=server", sent=privileged)
        except ApiError as refused:
            return f"{SPACE}-pods" in refused.message
        return False

    privileged = copy.deepcopy(TASK)
    privileged["spec"]["hostPID"] = True
    accounts = ("fairway-task", "fairway-head", "flux-applier")
    made = [documents.manifest("v1", "Namespace", name) for name in (SPACE, OTHER)]
    made += [
        documents.manifest("v1", "ServiceAccount", account, name)
        for name in (SPACE, OTHER)
        for account in accounts
    ]
    found = {"apiVersion": "v1", "kind": "List", "items": [*made, *policy([TARGET])]}
    kubectl("apply", "-f", "-", sent=found)
    try:
        for name in (SPACE, OTHER):
            kubectl("wait", "--for=create", "serviceaccount/default", "-n", name)
        until(is_in_force)
        yield create
    finally:
        kubectl("delete", "--wait=false", "-f", "-", sent=found)


def in_each_context(name: str, context: Change, **spec: Any) -> dict[str, tuple[Change, Change]]:
    """Returns rows with this security context for a pod, its container, and an init container."""
    before = {"name": "i", "image": "a:1", "securityContext": context}
    return {
        f"{name}, of the pod": ({**spec, "securityContext": context}, {}),
        f"{name}, of a container": (spec, {"securityContext": context}),
        f"{name}, of a container before it": ({**spec, "initContainers": [before]}, {}),
    }


def to_host(where: str, what: str) -> Change:
    """Returns a container that makes its node send requests to a host."""
    to = {what: {"host": "169.254.169.254", "port": 80}}
    return {"lifecycle": {where: to}} if where in ("postStart", "preStop") else {where: to}


WAYS_UP: dict[str, tuple[Change, Change]] = {
    "hostNetwork": ({"hostNetwork": True}, {}),
    "hostPID": ({"hostPID": True}, {}),
    "hostIPC": ({"hostIPC": True}, {}),
    "hostPath": ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, {}),
    "hostPath, all disks": (
        {"volumes": [{"name": "root", "hostPath": {"path": "/mnt/resource_nvme"}}]},
        {},
    ),
    "hostPath, below": (
        {"volumes": [{"name": "b", "hostPath": {"path": f"{SCRATCH}/another"}}]},
        {},
    ),
    "hostPath, beside": ({"volumes": [{"name": "b", "hostPath": {"path": f"{SCRATCH}2"}}]}, {}),
    "hostPath, after it": (
        {
            "volumes": [
                {"name": "scratch", "hostPath": {"path": SCRATCH}},
                {"name": "root", "hostPath": {"path": "/"}},
            ]
        },
        {},
    ),
    "no folder of /mnt, all pods'": (ON_NODE, mounted(OWN)),
    "no folder of /mnt, another's": (ON_NODE, mounted(OWN, subPath="another")),
    "no folder of /mnt, by another word": (ON_NODE, mounted(OWN, subPathExpr="$(HOSTNAME)")),
    "no folder of /mnt, by no variable": (ON_NODE, mounted(subPathExpr="$(_FAIRWAY_POD_UID)")),
    "no folder of /mnt, by a variable that lies": (
        ON_NODE,
        mounted(OWN, {**OWN, "valueFrom": None, "value": "x"}, subPathExpr="$(_FAIRWAY_POD_UID)"),
    ),
    "nodeName": ({"nodeName": "system-0"}, {}),
    "sysctls": ({"securityContext": {"sysctls": [{"name": "kernel.a", "value": "1"}]}}, {}),
    "privileged": ({}, {"securityContext": {"privileged": True}}),
    "capability": ({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    "capability, all of them": ({}, {"securityContext": {"capabilities": {"add": ["ALL"]}}}),
    "hostPort": ({}, {"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "procMount": ({"hostUsers": False}, {"securityContext": {"procMount": "Unmasked"}}),
    **in_each_context("seccompProfile", {"seccompProfile": {"type": "Unconfined"}}),
    **in_each_context("appArmorProfile", {"appArmorProfile": {"type": "Unconfined"}}),
    **in_each_context("seLinuxOptions", {"seLinuxOptions": {"type": "spc_t"}}),
    "seLinuxOptions, user": ({"securityContext": {"seLinuxOptions": {"user": "u"}}}, {}),
    "seLinuxOptions, role": ({}, {"securityContext": {"seLinuxOptions": {"role": "r"}}}),
    "windowsOptions, of the pod": (
        {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}},
        {},
    ),
    "windowsOptions, of a container": (
        {"hostNetwork": True},
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
    ),
    **{
        f"no host in probes, {where} by {what}": ({}, to_host(where, what))
        for where in ("livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop")
        for what in ("httpGet", "tcpSocket")
    },
    "priorityClassName": ({"priorityClassName": "system-cluster-critical"}, {}),
    "accounts": ({"serviceAccountName": "flux-applier"}, {}),
    "accounts, default": ({"serviceAccountName": "default"}, {}),
    "tolerations": ({"tolerations": ON_SYSTEM}, {}),
    "tolerations, the head's of everything": (
        {"serviceAccountName": "fairway-head", "tolerations": [*ON_SYSTEM, {"operator": "Exists"}]},
        {},
    ),
    "tolerations, of everything": ({"tolerations": [{"operator": "Exists"}]}, {}),
    "privileged, before it": (
        {
            "initContainers": [
                {"name": "i", "image": "a:1", "securityContext": {"privileged": True}}
            ]
        },
        {},
    ),
}


@pytest.mark.parametrize("way", WAYS_UP)
def test_kubernetes_policy_refuses_privilege_escalation_in_the_namespace_of_jobs(
    admit: Callable[..., Any], way: str
) -> None:
    with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{SPACE}-pods'") as caught:
        admit(*WAYS_UP[way])
    assert way.partition(",")[0] in caught.value.message
    admit(*WAYS_UP[way], namespace=OTHER)


def test_kubernetes_policy_refuses_unconfined_apparmor_annotations(
    admit: Callable[..., Any],
) -> None:
    profile = "container.apparmor.security.beta.kubernetes.io/task"
    with pytest.raises(ApiError, match="no appArmorProfile"):
        admit({}, annotations={profile: "unconfined"})
    admit({}, annotations={profile: "unconfined"}, namespace=OTHER)
    admit({}, annotations={profile: "runtime/default", "note": "unconfined"})


@pytest.mark.parametrize(
    "debugger",
    [
        {"securityContext": {"privileged": True}},
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
    ],
)
def test_kubernetes_policy_refuses_a_privileged_ephemeral_container(debugger: Change) -> None:
    store, admission = _cluster()
    before = admission.new(PODS, TASK, SPACE, "Strict")

    def join(container: Change) -> None:
        after = copy.deepcopy(before)
        after["spec"]["ephemeralContainers"] = [{"name": "d", "image": "a:1", **container}]
        require_change(store, PODS, before, after, "ephemeralcontainers", Identity("a"))

    join({})
    with pytest.raises(ApiError, match=f"ValidatingAdmissionPolicy '{SPACE}-pods'"):
        join(debugger)


@pytest.mark.parametrize(
    ("spec", "container"),
    [
        ({}, {}),
        (
            {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
            {
                "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
                "readinessProbe": {"httpGet": {"port": 80}},
                "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}},
            },
        ),
        ({"serviceAccountName": "fairway-head"}, {"securityContext": {}}),
        ({"serviceAccountName": "fairway-head", "tolerations": ON_SYSTEM}, {}),
        ({"tolerations": [{"key": "sku", "operator": "Exists"}]}, {"ports": []}),
        (ON_NODE, {}),
        (ON_NODE, mounted(OWN, subPathExpr="$(_FAIRWAY_POD_UID)")),
    ],
)
def test_kubernetes_policy_admits_pods_of_fairway(
    admit: Callable[..., Any], spec: Change, container: Change
) -> None:
    admit(spec, container)


HEAD = f"system:serviceaccount:{SPACE}:fairway-head"
HEALTH = f"system:serviceaccount:{health.NAMESPACE}:fairway-health"
NODE: dict[str, Any] = {
    "metadata": {
        "name": "nd-0",
        "labels": {"agentpool": "nd"},
        "annotations": {MACHINE: "resource=/subscriptions/s/x"},
    },
    "spec": {"taints": [{"key": "fairway.dev/pool", "value": "nd", "effect": "NoSchedule"}]},
}


@pytest.fixture
def change() -> Callable[..., Any]:
    """Changes the node nd-0 as the health check of a node, or as another account."""
    store = Store()
    admission = Admission(store)
    kinds = {"ValidatingAdmissionPolicy": POLICIES}
    kinds["ValidatingAdmissionPolicyBinding"] = POLICY_BINDINGS
    for found in [*health.objects([TARGET]), *policy_of_head(TARGET.kubernetes)]:
        if resource := kinds.get(found["kind"]):
            store.create(resource, admission.new(resource, found, "", "Strict"))
    before = store.create(NODES, admission.new(NODES, copy.deepcopy(NODE), "", "Strict"))

    def change(by: Identity, part: str = "", **spec: Any) -> Any:
        sent = copy.deepcopy(before)
        for field in ("labels", "annotations"):
            sent["metadata"][field] |= spec.pop(field, {})
        sent["spec"] |= spec
        return admission.changed(NODES, before, sent, "Strict", part, by)

    return change


@pytest.mark.parametrize("part", ["", "status"])
def test_kubernetes_policy_lets_the_health_check_change_only_its_own_node(
    change: Callable[..., Any], part: str
) -> None:
    change(Identity(HEALTH, node="nd-0"), part, unschedulable=True)
    for other in ("nd-1", ""):
        with pytest.raises(ApiError, match="only the node on which it runs"):
            change(Identity(HEALTH, node=other), part, unschedulable=True)
    change(Identity(HEAD), part, unschedulable=True)


@pytest.mark.parametrize("account", [HEALTH, HEAD], ids=["health check", "head"])
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"labels": {"team": "own"}}, "no labels"),
        ({"taints": []}, "no taints"),
        ({"annotations": {"other": "note"}}, "no annotations but"),
    ],
)
def test_kubernetes_policy_refuses_other_changes_of_a_node(
    change: Callable[..., Any], spec: Change, said: str, account: str
) -> None:
    with pytest.raises(ApiError, match=said):
        change(Identity(account, node="nd-0"), **copy.deepcopy(spec))
    change(Identity("admin"), **copy.deepcopy(spec))


def test_kubernetes_policy_lets_only_the_health_check_set_the_vm_of_a_node(
    change: Callable[..., Any],
) -> None:
    other = {"annotations": {MACHINE: "resource=/subscriptions/s/other"}}
    change(Identity(HEALTH, node="nd-0"), **copy.deepcopy(other))
    with pytest.raises(ApiError, match=r"no annotations but fairway\.dev/cordoned and"):
        change(Identity(HEAD), **other)
    change(Identity(HEAD), annotations={CORDONED: "a fault"})


MARKED: dict[str, Any] = {
    "labels": {"fairway.dev/run": "a"},
    "annotations": {REQUESTED: "request-a", "safe": "false"},
}


def noted(**notes: str) -> Change:
    """Returns a change that replaces all annotations of a pod with these."""
    return {"metadata": {"annotations": notes}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (noted(safe="false"), ""),
        (noted(**MARKED["annotations"]), ""),
        (noted(**{REQUESTED: "request-b"}, safe="false"), f"no other {REQUESTED}"),
        (noted(**{REQUESTED: "request-a"}), f"no annotations but {REQUESTED}"),
        (noted(**MARKED["annotations"], own="a"), f"no annotations but {REQUESTED}"),
        ({"metadata": {"labels": {"fairway.dev/run": "b"}}}, "no labels"),
        ({"metadata": {"finalizers": ["own/it"]}}, "no finalizers"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "no spec"),
    ],
)
def test_kubernetes_policy_lets_the_head_remove_only_the_request_of_a_pod(
    change: Change, said: str
) -> None:
    store, admission = _cluster()
    head = policy_of_head(TARGET.kubernetes)
    for resource, found in zip((POLICIES, POLICY_BINDINGS) * 2, head, strict=True):
        store.create(resource, admission.new(resource, found, "", "Strict"))
    pod = {**TASK, "metadata": {**TASK["metadata"], **MARKED}}
    before = admission.new(PODS, copy.deepcopy(pod), SPACE, "Strict")
    after = {
        **before,
        "metadata": before["metadata"] | change.get("metadata", {}),
        "spec": before["spec"] | change.get("spec", {}),
    }
    with pytest.raises(ApiError, match=said) if said else nullcontext():
        require_change(store, PODS, before, after, "", Identity(HEAD))
    require_change(store, PODS, before, after, "", Identity("admin"))
