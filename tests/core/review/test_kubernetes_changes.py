"""Changes of a deployed Kubernetes environment and their reviews. Actions and reasons are those
that azurerm 5.2.0 plans."""

import datetime
import html
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from targets import target_of

from fairway_core.cost.prices import Price, PriceTable
from fairway_core.environment import Kubernetes
from fairway_core.kubernetes.manifests import manifests
from fairway_core.kubernetes.pools import Volume
from fairway_core.review.markdown import markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import review
from fairway_core.target import Target

CLUSTER = "azurerm_kubernetes_cluster.kubernetes"
POOL = "azurerm_kubernetes_cluster_node_pool.cluster"
CLOSED = {"local_account_disabled": True, "private_cluster_enabled": True}
DAY = datetime.date(2026, 11, 21)
HOURLY = {"vm/Standard_HB176rs_v4": 7.2, "vm/Standard_D64s_v6": 3.0}
PRICES = PriceTable("USD", {("eastus", k): Price(v, "test", DAY) for k, v in HOURLY.items()})


def target(name: str, *tolerations: str, namespace: str = "training") -> Target:
    access = {
        "namespace": namespace,
        "selector": {"agentpool": name},
        "tolerations": ["fairway.dev/pool", *tolerations],
        "queue": name,
    }
    size, nodes = "Standard_D64s_v6", {"min": 1, "max": 2}
    return target_of("kubernetes", access, name=name, vm_size=size, nodes=nodes)


ND, CPU = ("nd",), ("cpu",)


def pool(size: str = "Standard_HB176rs_v4", **more: Any) -> dict[str, Any]:
    scale = {"auto_scaling_enabled": True, "min_count": 1, "max_count": 2, "node_count": 1}
    where = {"location": "eastus", "os_disk_type": "Ephemeral", "orchestrator_version": "1.35"}
    return {"vm_size": size, **scale, **where, **more}


def blobs(before: dict[str, str], after: dict[str, str]) -> list[Any]:
    """Returns changes of manifests whose text differs: the provider recreates their blobs."""
    return [
        (
            f"azurerm_storage_blob.manifests-{path.rpartition('/')[2].removesuffix('.yaml')}",
            "delete create",
            {"source_content": before[path]},
            {"source_content": after[path]},
            {"replace_paths": [["source_content"]]},
        )
        for path in before
        if before[path] != after[path]
    ]


@cache
def files(
    *pools: tuple[str, ...], shared: tuple[Volume, ...] = (), namespace: str = "training"
) -> dict[str, str]:
    """Returns the manifests for pools, each given as a name and the tolerations of its pods."""
    targets = [target(*each, namespace=namespace) for each in pools]
    return manifests(targets, shared, Kubernetes(namespace=namespace))


def rewritten(found: dict[str, str], was: str, now: str = "") -> dict[str, str]:
    """Returns the manifests with text of their policies replaced."""
    path = "jobs/namespace.yaml"
    assert was in found[path]
    return {**found, path: found[path].replace(was, now)}


def policies(was: str, now: str = "") -> list[Any]:
    """Returns the changes for replaced text in the policies and nothing else."""
    return blobs(files(ND), rewritten(files(ND), was, now))


def mounted(source: str, type_: str = "nfs", gib: int = 1024) -> dict[str, str]:
    """Returns the manifests with a file system from this source."""
    data = Volume(name="data", type=type_, source=source, options="vers=4.1,hard", gib=gib)
    return files(ND, shared=(data,))


def elsewhere() -> dict[str, str]:
    """Returns the manifests of an environment whose jobs are in the namespace `jobs`."""
    return files(ND, namespace="jobs")


CHANGES: dict[str, tuple[Callable[[], list[Any]], dict[str, int], tuple[str, ...]]] = {
    "a pool is added": (
        lambda: [
            (f"{POOL}-cpu", "create", None, pool("Standard_D64s_v6")),
            *blobs(files(ND), files(ND, CPU)),
        ],
        {},
        ("+3.00 USD an hour", "LocalQueue training/cpu", "ClusterQueue cpu"),
    ),
    "a pool is added whose pods tolerate more": (
        lambda: blobs(files(ND), files(ND, ("cpu", "team"))),
        {"loosened-policy": 1},
        ("only the tolerations of tasks",),
    ),
    "the version is raised": (
        lambda: [
            (CLUSTER, "update", *({"kubernetes_version": v, **CLOSED} for v in ("1.35", "1.36"))),
            (f"{POOL}-nd", "update", pool(), pool(orchestrator_version="1.36")),
        ],
        {"upgraded-nodes": 2},
        ("for Kubernetes 1.36 in place of 1.35: what runs on each ends",),
    ),
    "a pool is replaced": (
        lambda: [
            (
                f"{POOL}-nd",
                "delete create",
                pool(),
                pool("Standard_D64s_v6"),
                {"resource": {"action_reason": "replace_by_triggers"}},
            )
        ],
        {"lost-nodes": 1},
        ("would be destroyed and recreated, as vm_size changes: what runs", "USD an hour"),
    ),
    "the system has another size": (
        lambda: [
            (
                CLUSTER,
                "update",
                {**CLOSED, "default_node_pool": [{"vm_size": "Standard_D4s_v6"}]},
                {**CLOSED, "default_node_pool": [{"vm_size": "Standard_D8s_v6"}]},
            )
        ],
        {"replaced-system-nodes": 1},
        ("would be replaced, as vm_size changes: jobs go on",),
    ),
    "the nodes are in another subnet": (
        lambda: [
            (
                CLUSTER,
                "update",
                {**CLOSED, "default_node_pool": [{"vnet_subnet_id": "/subnets/compute"}]},
                {**CLOSED, "default_node_pool": [{"vnet_subnet_id": "/subnets/kubernetes"}]},
            )
        ],
        {"replaced-system-nodes": 1},
        ("would be replaced, as vnet_subnet_id changes: jobs go on",),
    ),
    "the API server leaves the internet": (
        lambda: [
            (
                CLUSTER,
                "delete create",
                {**CLOSED, "private_cluster_enabled": False},
                CLOSED,
                {"replace_paths": [["private_cluster_enabled"]]},
            ),
            (
                f"{POOL}-nd",
                "delete create",
                pool(),
                pool(),
                {"replace_paths": [["kubernetes_cluster_id"]]},
            ),
        ],
        {"lost-cluster": 1, "lost-nodes": 1},
        ("as private_cluster_enabled cannot be changed in place: every job in the cluster ends",),
    ),
    "a rule goes": (
        lambda: policies("training: not privileged", "training: nothing"),
        {"loosened-policy": 1},
        (
            "ValidatingAdmissionPolicy training-pods would refuse something else than before",
            "training: not privileged",
        ),
    ),
    "the head may change more of nodes": (
        lambda: policies("fairway.dev/cordoned-boot", "fairway.dev/machine"),
        {"loosened-policy": 1},
        (
            "ValidatingAdmissionPolicy training-fairway-head would refuse something",
            "no annotations but",
        ),
    ),
    "jobs have another namespace": (
        lambda: blobs(files(ND), elsewhere()),
        {"left-namespace": 1},
        ("the namespace training would stay", "kubectl delete namespace training"),
    ),
    "jobs have another namespace with one rule less": (
        lambda: blobs(files(ND), rewritten(elsewhere(), "jobs: not privileged", "jobs: nothing")),
        {"left-namespace": 1, "loosened-policy": 1},
        (
            "ValidatingAdmissionPolicy training-pods would refuse something else",
            "training: not privileged",
        ),
    ),
    "a file system is of another kind under its name": (
        lambda: blobs(mounted("10.0.0.4:/data"), mounted("10.0.0.5@tcp0:/lustrefs", "lustre")),
        {"moved-volume": 1},
        (
            "the volume training-data would come from elsewhere under its name",
            "kubectl -n training delete deployment/fairway-head pvc/data pv/training-data",
        ),
    ),
    "a file system is in another account under its name": (
        lambda: blobs(
            *(mounted(f"{each}.file.core.windows.net:/{each}/data") for each in ("a", "b"))
        ),
        {"moved-volume": 1},
        ("give the file system another name",),
    ),
    "where file systems come from is not known yet": (
        lambda: [
            (*given, {}, {**more, "after_unknown": {"source_content": True}})
            for *given, _, more in blobs(*map(mounted, ("10.0.0.4:/data", "10.0.0.5:/data")))
        ],
        {"moved-volume": 1},
        ("the volumes training-data could come from elsewhere under their names", "plan it again"),
    ),
    "a file system grows": (
        lambda: blobs(mounted("10.0.0.4:/data"), mounted("10.0.0.4:/data", gib=4096)),
        {},
        ("PersistentVolume training-data",),
    ),
    "a policy that fails lets all in": (
        lambda: policies("failurePolicy: Fail", "failurePolicy: Ignore"),
        {"loosened-policy": 3},
        ("ValidatingAdmissionPolicy training-pods would refuse", "what it is about"),
    ),
    "a policy is about fewer requests": (
        lambda: policies("      - pods/ephemeralcontainers\n"),
        {"loosened-policy": 1},
        ("ValidatingAdmissionPolicy training-pods would refuse", "what it is about"),
    ),
    "a policy is bound no longer": (
        lambda: policies("- Deny", "- Audit"),
        {"loosened-policy": 3},
        ("ValidatingAdmissionPolicyBinding training-pods would refuse", "what it is about"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_review_of_kubernetes_change_reports_expected_findings(make_plan: Any, name: str) -> None:
    changes, ids, said = CHANGES[name]
    found = review([read_plan(make_plan("lab-compute", *changes()))], prices=PRICES)
    told = [each.id for stack in found.stacks for each in stack.findings]
    assert {each: told.count(each) for each in told} == ids
    comment = html.unescape(markdown(found))
    for each in said:
        assert each in comment
