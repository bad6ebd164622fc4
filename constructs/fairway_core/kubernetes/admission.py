"""Admission policies: which pods may be created in the namespace of jobs, so that no submitter
gains control of a node, and which changes of nodes an account may make.

Everybody who submits may create pods there. The policy refuses all that the baseline of Pod
Security refuses, instead of that baseline, which has no exception for locking memory for InfiniBand
(IPC_LOCK) in a task's pod. It also refuses: volumes of the node except the pod's own scratch
folder, a node by name, priorities of the cluster's own pods, tolerations other than tasks', and
accounts other than those of tasks and of the head.

The expressions are in the Common Expression Language; a test runs them against each escape.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.api import BOOT, CORDONED
from fairway_agent.kubernetes.manifests import OWN_SCRATCH, POD_UID
from fairway_agent.kubernetes.objects import REQUESTED
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.kubernetes.pools import access_of, tolerations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.target import KubernetesAccess, Target

_API = "admissionregistration.k8s.io/v1"
_SPACE = "kubernetes.io/metadata.name"
# The capabilities of the baseline, and IPC_LOCK.
_CAPABILITIES = [
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
]
# Kubernetes adds these to pods by itself, and one for each extended resource that a pod requests.
_ADDED = [
    *("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"),
    *("node.kubernetes.io/memory-pressure", "rdma/ib"),
]
_CONTAINERS = (
    "object.spec.containers"
    " + (has(object.spec.initContainers) ? object.spec.initContainers : [])"
    " + (has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : [])"
)
_OF_NODE = (
    "has(object.spec.volumes) ? object.spec.volumes.filter(v, has(v.hostPath)).map(v, v.name) : []"
)
# The security contexts of the pod and its containers.
_CONTEXTS = (
    "(has(object.spec.securityContext) ? [object.spec.securityContext] : [])"
    " + variables.containers.filter(c, has(c.securityContext)).map(c, c.securityContext)"
)
# The probes and lifecycle hooks of a container.
_HANDLERS = " + ".join(
    f"({' && '.join(f'has({field})' for field in fields)} ? [{fields[-1]}] : [])"
    for fields in (
        *(("c.livenessProbe",), ("c.readinessProbe",), ("c.startupProbe",)),
        *(("c.lifecycle", f"c.lifecycle.{when}") for when in ("postStart", "preStop")),
    )
)
# The expressions on each of a pod's containers, by message.
_OF_CONTAINERS = {
    "no hostPort": (
        "variables.containers.all(c, "
        "!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))"
    ),
    # The node sends these requests, from its own network.
    "no host in probes and lifecycle hooks; leave it out to ask the pod itself": (
        f"variables.containers.all(c, ({_HANDLERS})"
        ".all(h, (!has(h.httpGet) || !has(h.httpGet.host))"
        " && (!has(h.tcpSocket) || !has(h.tcpSocket.host))))"
    ),
}
# Before Kubernetes 1.30 profiles were set by annotations, which still apply.
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def policy(targets: Sequence[Target]) -> list[Manifest]:
    """Returns the policy and its binding to the namespace of the targets' jobs."""
    access = access_of(targets[0])
    space = access.namespace
    name = f"{space}-pods"
    keys = [*(each["key"] for each in tolerations(targets)), *_ADDED]
    of_head = list(access.head_tolerations)
    accounts = [access.service_account, access.head]
    variables = {"containers": _CONTAINERS, "contexts": _CONTEXTS, "ofNode": _OF_NODE}
    validations = {
        **_of_contexts(),
        **_of_pods(),
        **_of_volumes(targets),
        **_OF_CONTAINERS,
        f"only the accounts {' and '.join(accounts)}": (
            "has(object.spec.serviceAccountName)"
            f" && object.spec.serviceAccountName in {json.dumps(accounts)}"
        ),
        "only the tolerations of tasks, or the head's of its pods": (
            "!has(object.spec.tolerations) || object.spec.tolerations.all(t, "
            f"has(t.key) && (t.key in {json.dumps(keys)} || (t.key in {json.dumps(of_head)}"
            f' && object.spec.serviceAccountName == "{access.head}")))'
        ),
    }
    return _enforced(
        name,
        ("pods", "pods/ephemeralcontainers"),
        ("CREATE", "UPDATE"),
        {},
        variables,
        {f"{space}: {message}": holds for message, holds in validations.items()},
        {"matchResources": {"namespaceSelector": {"matchLabels": {_SPACE: space}}}},
    )


def _enforced(
    name: str,
    resources: Sequence[str],
    operations: Sequence[str],
    conditions: Mapping[str, Any],
    variables: Mapping[str, str],
    validations: Mapping[str, str],
    where: Mapping[str, Any],
) -> list[Manifest]:
    """Returns a policy with validations on operations on resources, each by its message, and the
    binding that denies violations; a request that cannot be evaluated is refused."""
    rule: dict[str, list[str]] = {"apiGroups": [""], "apiVersions": ["v1"]}
    rule |= {"operations": list(operations), "resources": list(resources)}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        **conditions,
        "variables": [{"name": each, "expression": is_} for each, is_ in variables.items()],
        "validations": [
            {"expression": holds, "message": message} for message, holds in validations.items()
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"], **where}
    return [
        manifest(_API, "ValidatingAdmissionPolicy", name, spec=spec),
        manifest(_API, "ValidatingAdmissionPolicyBinding", name, spec=binding),
    ]


def policy_of_head(access: KubernetesAccess) -> list[Manifest]:
    """Returns the policies of the head's account, which every submitter can act as: of nodes it may
    only change whether they take pods, and who has cordoned them, and of pods only remove Kueue's
    mark. Kubernetes' roles cannot restrict a verb to a part of an object."""
    name = f"{access.namespace}-{access.head}"
    kept = {"no spec": "object.spec == oldObject.spec"}
    fields = ("labels", "finalizers", "ownerReferences")
    kept |= {f"no {field}": _kept(f"metadata.{field}") for field in fields}
    # Another value would belong to another request.
    kept[f"no other {REQUESTED}"] = (
        f'!("{REQUESTED}" in variables.notes) || ("{REQUESTED}" in variables.before'
        f' && variables.notes["{REQUESTED}"] == variables.before["{REQUESTED}"])'
    )
    return [
        *node_policy(name, access.namespace, access.head, (CORDONED, BOOT)),
        *_policy_of_account(
            (f"{name}-pods", access.namespace, access.head),
            ("pods",),
            {**kept, **_notes_kept((REQUESTED,))},
        ),
    ]


def node_policy(
    name: str,
    namespace: str,
    account: str,
    notes: Sequence[str],
    more: Mapping[str, str] | None = None,
) -> list[Manifest]:
    """Returns a policy, and its binding, that keeps an account from changing nodes' labels, taints,
    and annotations other than `notes`: those belong to other accounts. `more` are further
    expressions, by message."""
    validations = {
        **(more or {}),
        "no labels": _kept("metadata.labels"),
        "no taints": _kept("spec.taints"),
        **_notes_kept(notes),
    }
    return _policy_of_account((name, namespace, account), ("nodes", "nodes/status"), validations)


def _policy_of_account(
    names: tuple[str, str, str], resources: Sequence[str], validations: Mapping[str, str]
) -> list[Manifest]:
    """Returns a policy on an account's changes of resources; `names` are those of the policy, and
    the account's namespace and name."""
    name, namespace, account = names
    user = f"system:serviceaccount:{namespace}:{account}"
    is_account = {"name": "account", "expression": f'request.userInfo.username == "{user}"'}
    before = {"notes": "object.metadata.annotations", "before": "oldObject.metadata.annotations"}
    return _enforced(
        name,
        resources,
        ("UPDATE",),
        {"matchConditions": [is_account]},
        {field: f"has({each}) ? {each} : {{}}" for field, each in before.items()},
        {f"{name}: {message}": holds for message, holds in validations.items()},
        {},
    )


def _kept(field: str) -> str:
    """Returns an expression that is true if a field is unchanged."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _notes_kept(notes: Sequence[str]) -> dict[str, str]:
    """Returns an expression that is true if all other annotations are unchanged, by its message."""
    own = json.dumps(list(notes))
    new, old = "variables.notes", "variables.before"
    return {
        f"no annotations but {' and '.join(notes)}": (
            f"{new}.all(k, k in {own} || (k in {old} && {old}[k] == {new}[k]))"
            f" && {old}.all(k, k in {own} || k in {new})"
        )
    }


def _of_pods() -> dict[str, str]:
    """Returns the expressions on a pod itself, by message."""
    return {
        **{
            f"no {field}": f"!has(object.spec.{field}) || object.spec.{field} == false"
            for field in ("hostNetwork", "hostPID", "hostIPC")
        },
        # It bypasses the scheduler, and so the taints of nodes. A running pod has one.
        "no nodeName": 'request.operation != "CREATE" || !has(object.spec.nodeName)',
        # Such a pod preempts others, including those of the cluster itself.
        "no priorityClassName that begins with system-; leave it out": (
            "!has(object.spec.priorityClassName)"
            ' || !object.spec.priorityClassName.startsWith("system-")'
        ),
    }


def _of_contexts() -> dict[str, str]:
    """Returns the expressions on the security contexts of a pod and its containers, by message:
    slightly stricter than the baseline, in ways that no task needs."""
    each = {
        "not privileged": "!has(s.privileged) || s.privileged == false",
        "no capability but the baseline's and IPC_LOCK": (
            "!has(s.capabilities) || !has(s.capabilities.add)"
            f" || s.capabilities.add.all(n, n in {json.dumps(_CAPABILITIES)})"
        ),
        "no procMount": '!has(s.procMount) || s.procMount == "Default"',
        **{
            f"no {field}; leave them out": f"!has(s.{field})"
            for field in ("sysctls", "seLinuxOptions", "windowsOptions")
        },
        **{
            f"no {field} but RuntimeDefault": (
                f'!has(s.{field}) || s.{field}.type == "RuntimeDefault"'
            )
            for field in ("seccompProfile", "appArmorProfile")
        },
    }
    return {
        **{what: f"variables.contexts.all(s, {holds})" for what, holds in each.items()},
        "no appArmorProfile by an annotation but runtime/default": (
            "!has(object.metadata.annotations) || object.metadata.annotations.all(k, "
            f'!k.startsWith("{_APPARMOR}") || object.metadata.annotations[k] == "runtime/default")'
        ),
    }


def _of_volumes(targets: Sequence[Target]) -> dict[str, str]:
    """Returns the expressions that allow no folder of the node except the one for scratch, and of
    that only a subfolder named after the pod's UID, which nobody knows in advance."""
    scratches = {access_of(target).scratch for target in targets}
    folders = sorted(each for each in scratches if each.startswith("/"))
    if not folders:
        return {"no hostPath": "size(variables.ofNode) == 0"}
    where = " and ".join(folders)
    return {
        f"no hostPath but {where}": (
            "!has(object.spec.volumes) || object.spec.volumes.all(v, "
            f"!has(v.hostPath) || v.hostPath.path in {json.dumps(folders)})"
        ),
        f"no folder of {where} but its own": (
            "variables.containers.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, "
            "!(m.name in variables.ofNode) || ("
            f'has(m.subPathExpr) && m.subPathExpr == "{OWN_SCRATCH}"'
            f' && has(c.env) && c.env.exists(e, e.name == "{POD_UID}")'
            f' && c.env.all(e, e.name != "{POD_UID}" || (has(e.valueFrom)'
            ' && has(e.valueFrom.fieldRef) && e.valueFrom.fieldRef.fieldPath == "metadata.uid")))))'
        ),
    }
