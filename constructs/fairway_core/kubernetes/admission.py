"""The pods that the namespace of jobs takes: none by which a submitter gets hold of a node. And the
changes of nodes that an account may make.

Everybody who submits may create pods there. What the baseline of Pod Security refuses is refused
here too, in a policy of its own, because a task's pod locks memory for InfiniBand (IPC_LOCK), which
that baseline knows no exception for. Beside it: no volume of the node's but the pod's own folder in
that for tasks' scratch, no node by its name, no priority of the cluster's own pods, no toleration
but those of tasks, and the accounts of tasks and of the head alone.

The expressions are in the Common Expression Language, which a test runs against each way out.
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
# Those of the baseline, and the one more.
_CAPABILITIES = [
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
]
# Kubernetes itself adds them to pods, and one of a resource's name where that is asked for.
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
# The security contexts of the containers, and the pod's own.
_CONTEXTS = (
    "(has(object.spec.securityContext) ? [object.spec.securityContext] : [])"
    " + variables.containers.filter(c, has(c.securityContext)).map(c, c.securityContext)"
)
# Of a container: its probes and lifecycle hooks.
_HANDLERS = " + ".join(
    f"({' && '.join(f'has({field})' for field in fields)} ? [{fields[-1]}] : [])"
    for fields in (
        *(("c.livenessProbe",), ("c.readinessProbe",), ("c.startupProbe",)),
        *(("c.lifecycle", f"c.lifecycle.{when}") for when in ("postStart", "preStop")),
    )
)
# Before Kubernetes 1.30 these were annotations, and they are still obeyed.
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def policy(targets: Sequence[Target]) -> list[Manifest]:
    """Returns the policy, and its binding to the namespace of the targets' jobs."""
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
        **_of_containers(),
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
        {
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}
            }
        },
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
    """Returns a policy by which expressions hold of what is done to resources, each by its message,
    and the binding that denies anything else; what cannot be judged is refused."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }
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
        {**manifest(_API, "ValidatingAdmissionPolicy", name), "spec": spec},
        {**manifest(_API, "ValidatingAdmissionPolicyBinding", name), "spec": binding},
    ]


def policy_of_head(access: KubernetesAccess) -> list[Manifest]:
    """Returns the policies of the head's account, which every submitter can act as: it may change
    of nodes whether they take pods, and whose closing that is, and of pods nothing but to take
    Kueue's mark away. Kubernetes' roles have a verb for all of an object."""
    name = f"{access.namespace}-{access.head}"
    kept = {"no spec": "object.spec == oldObject.spec"}
    fields = ("labels", "finalizers", "ownerReferences")
    kept |= {f"no {field}": _kept(f"metadata.{field}") for field in fields}
    # Another value would be another request's.
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
    """Returns a policy, and its binding, by which an account changes no labels of nodes, no taints,
    and no annotations but `notes`: the others are the word of other accounts. `more` are
    expressions that hold too, by what each refuses."""
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
    """Returns a policy of what an account changes of resources: its name, and the account's
    namespace and name."""
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
    """Returns an expression that holds where a field is as it was."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _notes_kept(notes: Sequence[str]) -> dict[str, str]:
    """Returns an expression that holds where all annotations but these are as they were."""
    own = json.dumps(list(notes))
    new, old = "variables.notes", "variables.before"
    return {
        f"no annotations but {' and '.join(notes)}": (
            f"{new}.all(k, k in {own} || (k in {old} && {old}[k] == {new}[k]))"
            f" && {old}.all(k, k in {own} || k in {new})"
        )
    }


def _of_pods() -> dict[str, str]:
    """Returns the expressions that hold of a pod itself, by the property that each refuses."""
    found = {
        f"no {field}": f"!has(object.spec.{field}) || object.spec.{field} == false"
        for field in ("hostNetwork", "hostPID", "hostIPC")
    }
    return found | {
        # It passes by the scheduler, and so by the taints of nodes. A pod that runs has one.
        "no nodeName": 'request.operation != "CREATE" || !has(object.spec.nodeName)',
        # Such a pod ends others to have their node, those of the cluster among them.
        "no priorityClassName that begins with system-; leave it out": (
            "!has(object.spec.priorityClassName)"
            ' || !object.spec.priorityClassName.startsWith("system-")'
        ),
    }


def _of_contexts() -> dict[str, str]:
    """Returns the expressions that hold of the security contexts of a pod and of its containers, by
    the property that each refuses: a few more than the baseline's, which no task needs."""
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
    """Returns the expressions by which pods have no folder of their node but that for scratch, and
    of that only one with their own name, which nobody knows before they are there."""
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


def _of_containers() -> dict[str, str]:
    """Returns the expressions that hold of each of a pod's containers, by the property that each
    refuses."""
    each = {
        "no hostPort": "!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0)",
        # The node sends those requests, from its own network.
        "no host in probes and lifecycle hooks; leave it out to ask the pod itself": (
            f"({_HANDLERS}).all(h, (!has(h.httpGet) || !has(h.httpGet.host))"
            " && (!has(h.tcpSocket) || !has(h.tcpSocket.host)))"
        ),
    }
    return {
        message: f"variables.containers.all(c, {expression})"
        for message, expression in each.items()
    }
