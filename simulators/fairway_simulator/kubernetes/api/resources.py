"""The supported resources: one line each, with the names of the real server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairway_simulator.kubernetes.api import schemas

_KUEUE = "kueue.x-k8s.io"
_AUTOSCALING = "autoscaling.x-k8s.io"


@dataclass(frozen=True)
class Resource:
    """A kind of objects, with its place in the API and the name of its schema."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    """True if the status is written separately, under `…/status`."""
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    schema: str = ""
    """The name of its definition in the published schemas; "" if there is none."""

    @property
    def is_custom(self) -> bool:
        """True for a custom resource of an operator, False for Kubernetes' own."""
        return self.group in (_KUEUE, _AUTOSCALING)

    @property
    def qualified(self) -> str:
        """The name in messages: `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """The apiVersion of objects: `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def as_owner(self, found: dict[str, Any]) -> dict[str, Any]:
        """Returns the owner reference that objects created by an object of this kind have."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": found["metadata"]["name"],
            "uid": found["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def to_wire(self, found: dict[str, Any]) -> dict[str, Any]:
        """Returns an object with its kind and apiVersion, unless it has its own."""
        return {"kind": self.kind, "apiVersion": self.api_version, **found}


def _core(plural: str, kind: str, **more: Any) -> Resource:
    return Resource("", "v1", plural, kind, schema=f"io.k8s.api.core.v1.{kind}", **more)


def _of(group: str, plural: str, kind: str, **more: Any) -> Resource:
    package = group.partition(".")[0]
    return Resource(group, "v1", plural, kind, schema=f"io.k8s.api.{package}.v1.{kind}", **more)


def _kueue(plural: str, kind: str, **more: Any) -> Resource:
    return Resource(_KUEUE, "v1beta2", plural, kind, schema=schemas.name_of(kind), **more)


_POD_SUBRESOURCES = ("eviction", "exec", "log")

PODS = _core("pods", "Pod", status=True, short=("po",), subresources=_POD_SUBRESOURCES)
NODES = _core("nodes", "Node", namespaced=False, status=True, short=("no",))
NAMESPACES = _core("namespaces", "Namespace", namespaced=False, status=True, short=("ns",))
EVENTS = _core("events", "Event", short=("ev",))
CONFIG_MAPS = _core("configmaps", "ConfigMap", short=("cm",))
POD_TEMPLATES = _core("podtemplates", "PodTemplate")
SERVICE_ACCOUNTS = _core(
    "serviceaccounts", "ServiceAccount", short=("sa",), subresources=("token",)
)
CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim", status=True, short=("pvc",))
VOLUMES = _core(
    "persistentvolumes", "PersistentVolume", namespaced=False, status=True, short=("pv",)
)
QUOTAS = _core("resourcequotas", "ResourceQuota", status=True, short=("quota",))
JOBS = _of("batch", "jobs", "Job", status=True)
DEPLOYMENTS = _of("apps", "deployments", "Deployment", status=True, short=("deploy",))
_RBAC = "rbac.authorization.k8s.io"
ROLES = _of(_RBAC, "roles", "Role")
ROLE_BINDINGS = _of(_RBAC, "rolebindings", "RoleBinding")
CLUSTER_ROLES = _of(_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _of(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ADMISSION = "admissionregistration.k8s.io"
POLICIES = _of(
    _ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
POLICY_BINDINGS = _of(
    _ADMISSION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
WORKLOADS = _kueue("workloads", "Workload", status=True, short=("wl",))
LOCAL_QUEUES = _kueue("localqueues", "LocalQueue", status=True, short=("queue",))
CLUSTER_QUEUES = _kueue("clusterqueues", "ClusterQueue", namespaced=False, status=True)
FLAVORS = _kueue("resourceflavors", "ResourceFlavor", namespaced=False, short=("rf",))
CHECKS = _kueue("admissionchecks", "AdmissionCheck", namespaced=False, status=True, short=("ac",))
CHECK_CONFIGS = _kueue(
    "provisioningrequestconfigs", "ProvisioningRequestConfig", namespaced=False, short=("prc",)
)
PROVISIONING_REQUESTS = Resource(
    _AUTOSCALING,
    "v1",
    "provisioningrequests",
    "ProvisioningRequest",
    status=True,
    short=("provreq",),
    schema=schemas.name_of("ProvisioningRequest"),
)
"""Resource of clusters whose autoscaler supports ProvisioningRequests."""
WORKLOAD_PRIORITIES = _kueue("workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)

BUILT_IN = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    CONFIG_MAPS,
    POD_TEMPLATES,
    SERVICE_ACCOUNTS,
    CLAIMS,
    VOLUMES,
    QUOTAS,
    JOBS,
    DEPLOYMENTS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    POLICIES,
    POLICY_BINDINGS,
)
"""Resources of every cluster."""

KUEUE = (
    WORKLOADS,
    LOCAL_QUEUES,
    CLUSTER_QUEUES,
    FLAVORS,
    CHECKS,
    CHECK_CONFIGS,
    WORKLOAD_PRIORITIES,
)
"""Further resources of a cluster with Kueue."""

REVIEWS = (
    Resource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
    ),
)
"""Queries that are made by creating an object, which is not stored."""
