"""API server: versions, lists in pages, watches, conflicts, roles, faults and scheduling.

kubernetes.io/docs/reference/using-api/api-concepts (lists, watches, bookmarks, conflicts, patches),
reference/access-authn-authz/rbac, concepts/scheduling-eviction.
"""

import json
import queue
import ssl
from typing import Any

import pytest
from namespaces import Space

from fairway_simulator.kubernetes import Fault, KubernetesCluster
from fairway_simulator.kubernetes.api.patches import MERGE, STRATEGIC, patched
from fairway_simulator.kubernetes.api.resources import CONFIG_MAPS, PODS
from fairway_simulator.kubernetes.api.store import Change, Store
from fairway_simulator.kubernetes.client import Client, ErrorResponse
from fairway_simulator.kubernetes.controllers.job_state import parsed, spelled
from fairway_simulator.kubernetes.controllers.loop import Loop


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def client(space: Space) -> Client:
    """A client without kubectl, with all rights."""
    return Client.of_kubeconfig(space.kubeconfig)


@pytest.fixture
def maps(space: Space) -> str:
    """The path of the namespace's config maps."""
    return f"/api/v1/namespaces/{space.name}/configmaps"


def test_kubernetes_api_stale_update_or_delete_is_a_conflict(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster
) -> None:
    space.create(_map("m", a="1"))
    old = client.get(f"{maps}/m")
    about = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    client.send("PATCH", f"{maps}/m", {**about, "data": {"a": "2"}}, MERGE)
    with pytest.raises(ErrorResponse, match="the object has been modified") as refused:
        client.send("PATCH", f"{maps}/m", {**about, "data": {"a": "3"}}, MERGE)
    assert refused.value.code == 409
    with pytest.raises(ErrorResponse, match="does not match the UID in record") as refused:
        client.send("DELETE", f"{maps}/m", {"preconditions": {"uid": "another"}})
    assert refused.value.code == 409
    assert client.get(f"{maps}/m")["data"] == {"a": "2"}


def test_kubernetes_list_has_pages(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster
) -> None:
    """A real server has its own ConfigMap in each namespace."""
    for number in range(5):
        space.create(_map(f"m{number}"))
    names, token = [], ""
    for _ in range(3):
        page = client.get(f"{maps}?limit=2&continue={token}")
        names += [each["metadata"]["name"] for each in page["items"]]
        token = page["metadata"].get("continue", "")
    assert token == ""
    assert names == ["kube-root-ca.crt", "m0", "m1", "m2", "m3", "m4"]


def test_kubernetes_list_with_an_expired_continue_token_answers_410(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster
) -> None:
    space.create(_map("m0"))
    token = client.get(f"{maps}?limit=1")["metadata"]["continue"]
    space.create(_map("m1"))
    cluster.api.store.forget()
    space.create(_map("m2"))
    with pytest.raises(ErrorResponse) as refused:
        client.get(f"{maps}?limit=1&continue={token}")
    assert refused.value.code == 410


def test_kubernetes_watch_starts_at_its_version_and_marks_initial_events(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster
) -> None:
    space.create(_map("m", a="1"))
    start = client.get(maps)["metadata"]["resourceVersion"]
    space.do("label", "configmap", "m", "l=1")
    space.do("delete", "configmap", "m")
    watch = client.watch(f"{maps}?watch=1&resourceVersion={start}")
    assert [next(watch)[0] for _ in range(2)] == ["MODIFIED", "DELETED"]
    options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = client.watch(f"{maps}?{options}&allowWatchBookmarks=true")
    assert next(watch)[0] == "ADDED"  # kube-root-ca.crt
    kind, mark = next(watch)
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_kubernetes_watch_deletes_objects_that_leave_its_selector(
    space: Space, client: Client, maps: str
) -> None:
    start = client.get(maps)["metadata"]["resourceVersion"]
    space.create(_map("m"))
    space.do("label", "configmap", "m", "l=1")
    space.do("label", "configmap", "m", "l-")
    watch = client.watch(f"{maps}?watch=1&resourceVersion={start}&labelSelector=l%3D1")
    assert [next(watch)[0] for _ in range(2)] == ["ADDED", "DELETED"]


def test_kubernetes_watch_from_an_expired_version_gets_an_error_event(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster
) -> None:
    start = client.get(maps)["metadata"]["resourceVersion"]
    space.create(_map("m"))
    cluster.api.store.forget()
    space.create(_map("n"))
    kind, status = next(client.watch(f"{maps}?watch=1&resourceVersion={start}"))
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_kubernetes_controllers_that_missed_changes_reconcile_all_objects() -> None:
    """The controllers were behind when the server forgot changes; nothing else would wake them."""
    store, seen = Store(), queue.Queue[str]()

    class Names:
        def concerned(self, change: Change) -> list[str]:
            return [change.found["metadata"]["name"]]

        def due(self) -> list[str]:
            return []

        def reconcile(self, key: str) -> None:
            seen.put(key)

    store.create(CONFIG_MAPS, {"metadata": {"namespace": "n", "name": "m"}})
    store.forget()
    loop = Loop(store, [Names()])
    loop.start()
    try:
        assert seen.get(timeout=60) == "m"
        store.create(CONFIG_MAPS, {"metadata": {"namespace": "n", "name": "o"}})
        assert seen.get(timeout=60) == "o"
    finally:
        store.close()
        loop.stop()
    assert seen.empty()


def test_kubernetes_api_refuses_or_drops_unknown_fields(
    space: Space, client: Client, maps: str
) -> None:
    wrong = {**_map("m"), "date": {"a": "1"}}
    with pytest.raises(
        ErrorResponse, match='strict decoding error: unknown field "date"'
    ) as refused:
        client.send("POST", f"{maps}?fieldValidation=Strict", wrong)
    assert refused.value.code == 400
    assert "date" not in client.send("POST", f"{maps}?fieldValidation=Ignore", wrong)


def _allow(space: Space, account: str, verbs: list[str], resources: list[str]) -> None:
    """Gives a service account the role `r` with the binding `b`."""
    group = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": "r"}}
    rules = [{"apiGroups": [""], "verbs": verbs, "resources": resources}]
    space.create({**about, "kind": "Role", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": space.name}
    role = {"apiGroup": group, "kind": "Role", "name": "r"}
    bound = {"kind": "RoleBinding", "subjects": [subject], "roleRef": role}
    space.create({**about, **bound, "metadata": {"name": "b"}})


def test_kubernetes_service_account_has_only_the_rights_of_its_roles(
    space: Space, cluster: KubernetesCluster
) -> None:
    space.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "head"}})
    own = cluster.kubeconfig_of(f"{space.name}/head")
    as_head = ("--kubeconfig", str(own))
    message = space.refused("get", "pods", *as_head)
    assert message == (
        f'Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:'
        f'{space.name}:head" cannot list resource "pods" in API group "" in the namespace '
        f'"{space.name}"\n'
    )
    _allow(space, "head", ["get", "list"], ["pods", "pods/log"])
    space.do("get", "pods", *as_head)
    for verb, allowed in (("list", True), ("delete", False)):
        asked = {"verb": verb, "resource": "pods", "namespace": space.name}
        review = json.dumps({"spec": {"resourceAttributes": asked}})
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        said = json.loads(space.do("create", "--raw", path, "-f", "-", *as_head, stdin=review))
        assert said["status"] == {"allowed": allowed}
    assert "(Forbidden)" in space.refused("get", "pods", "-n", "default", *as_head)
    assert "(Forbidden)" in space.refused("get", "nodes", *as_head)
    space.do("delete", "rolebinding", "b")
    assert "(Forbidden)" in space.refused("get", "pods", *as_head)
    space.do("delete", "serviceaccount", "head")
    assert "Unauthorized" in space.refused("get", "pods", *as_head)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("serviceAccountName", 'serviceaccount "no" not found'),
        ("priorityClassName", "no PriorityClass with name no was found"),
    ],
)
def test_kubernetes_pod_with_an_unknown_account_or_priority_class_is_refused(
    space: Space, field: str, said: str
) -> None:
    container = {"name": "task", "image": "sim"}
    about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    spec = {field: "no", "containers": [container]}
    message = space.refused("create", "-f", "-", stdin=json.dumps({**about, "spec": spec}))
    assert 'pods "p" is forbidden: ' in message
    assert said in message


def test_kubernetes_scheduler_respects_selectors_and_taints(
    space: Space, cluster: KubernetesCluster
) -> None:
    space.do("taint", "node", "sim-1", "sku=gpu:NoSchedule")
    try:
        pod = {"nodeSelector": {"kubernetes.io/hostname": "sim-1"}}
        about = {"apiVersion": "v1", "kind": "Pod"}
        container = {"name": "task", "image": "sim", "command": ["true"]}
        spec = {"containers": [container], "restartPolicy": "Never", **pod}
        space.create({**about, "metadata": {"name": "no"}, "spec": spec})
        space.wait("pod/no", "jsonpath={.status.conditions[0].reason}=Unschedulable")
        said = space.get("pod", "no")["status"]["conditions"][0]["message"]
        assert "2 node(s) didn't match Pod's node affinity/selector" in said
        assert "1 node(s) had untolerated taint {sku: gpu}" in said
        bearing = {**spec, "tolerations": [{"key": "sku", "operator": "Exists"}]}
        space.create({**about, "metadata": {"name": "yes"}, "spec": bearing})
        space.wait("pod/yes", "jsonpath={.status.phase}=Succeeded")
    finally:
        space.do("taint", "node", "sim-1", "sku-")
    space.wait("pod/no", "jsonpath={.status.phase}=Succeeded")  # the taint is gone


def test_kubernetes_api_refuses_a_body_that_is_too_large(client: Client, maps: str) -> None:
    with pytest.raises(
        ErrorResponse, match="Request entity too large: limit is 3145728"
    ) as refused:
        client.send("POST", maps, _map("m", text="x" * (3 << 20)))
    assert refused.value.code == 413


@pytest.mark.parametrize("status", [429, 500, 503])
def test_kubernetes_faults_answer_with_their_status(
    space: Space, client: Client, maps: str, cluster: KubernetesCluster, status: int
) -> None:
    cluster.faults.add(Fault("status", status=status, count=1, path=maps))
    with pytest.raises(ErrorResponse) as refused:
        client.get(maps)
    assert refused.value.code == status
    assert client.get(maps)["items"]


def test_kubernetes_client_refuses_an_untrusted_certificate(
    space: Space, cluster: KubernetesCluster
) -> None:
    foreign = Client(cluster.url, ssl.create_default_context(), "token")
    with pytest.raises(ErrorResponse, match="CERTIFICATE_VERIFY_FAILED"):
        foreign.get("/version")


def test_kubernetes_strategic_patch_merges_lists_by_their_keys() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}}
    found = patched(pod, patch, STRATEGIC, PODS)
    assert found["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
        {"name": "c"},
    ]
    gone = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    found = patched(pod, gone, STRATEGIC, PODS)
    assert [each["name"] for each in found["spec"]["containers"]] == ["b"]
    assert patched(pod, {"spec": None}, MERGE, PODS) == {}


@pytest.mark.parametrize(
    ("indexes", "text"),
    [(set(), ""), ({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 3, 4, 5}, "0,1,3-5"), ({2, 4, 6}, "2,4,6")],
)
def test_kubernetes_index_sets_are_formatted_and_parsed_as_intervals(
    indexes: set[int], text: str
) -> None:
    assert spelled(indexes) == text
    assert parsed(text) == indexes
