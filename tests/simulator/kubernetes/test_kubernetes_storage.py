"""Volumes, claims and quotas of a namespace in the simulated server and its controllers."""

from pathlib import Path
from typing import Any

import pytest

from fairway_simulator.kubernetes.api.admission import Admission
from fairway_simulator.kubernetes.api.requests import ApiError, Identity
from fairway_simulator.kubernetes.api.resources import (
    CLAIMS,
    EVENTS,
    NAMESPACES,
    PODS,
    QUOTAS,
    VOLUMES,
    Resource,
)
from fairway_simulator.kubernetes.api.store import Store
from fairway_simulator.kubernetes.controllers.namespaces import Claims

SPACE = "training"
SIZE = {"storage": "10Gi"}
MANY = ["ReadWriteMany"]
NFS = {"nfs": {"server": "10.0.0.4", "path": "/srv/data"}}


class Server:
    """The layers between a request and the store."""

    def __init__(self, folder: Path) -> None:
        self.store = Store()
        self.admission = Admission(self.store)
        self.claims = Claims(self.store, folder)
        self.make(NAMESPACES, {"metadata": {"name": SPACE}})

    def make(self, resource: Resource, sent: dict[str, Any]) -> dict[str, Any]:
        space = SPACE if resource.namespaced else ""
        made: dict[str, Any] = self.store.create(
            resource, self.admission.new(resource, sent, space, "Strict")
        )
        return made

    def change(self, resource: Resource, name: str, **spec: Any) -> None:
        before = self.store.get(resource, SPACE if resource.namespaced else "", name)
        sent = {**before, "spec": {**before["spec"], **spec}}
        self.admission.changed(resource, before, sent, "Strict", "", Identity("somebody"))

    def volume(self, **spec: Any) -> None:
        whole = {"capacity": SIZE, "accessModes": MANY, "storageClassName": "", **NFS, **spec}
        self.make(VOLUMES, {"metadata": {"name": "v"}, "spec": whole})

    def claim(self, **spec: Any) -> None:
        whole = {"accessModes": MANY, "resources": {"requests": SIZE}, "storageClassName": ""}
        self.make(CLAIMS, {"metadata": {"name": "c"}, "spec": {**whole, "volumeName": "v", **spec}})

    def phase(self) -> tuple[str, str]:
        """Returns the phase of the claim and the messages of its events."""
        self.claims.reconcile(f"{SPACE}/c")
        said = [each["message"] for each in self.store.items(EVENTS, SPACE)]
        return self.store.get(CLAIMS, SPACE, "c")["status"]["phase"], " ".join(said)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


class TestClaims:
    """Claims that are bound to a volume, and claims that stay pending."""

    def test_kubernetes_claim_and_volume_naming_each_other_are_bound(self, server: Server) -> None:
        server.claim()
        assert server.phase() == ("Pending", "")
        server.volume(claimRef={"namespace": SPACE, "name": "c"})
        assert server.phase() == ("Bound", "")
        volume = server.store.get(VOLUMES, "", "v")
        assert volume["status"]["phase"] == "Bound"
        mine = server.store.get(CLAIMS, SPACE, "c")["metadata"]["uid"]
        assert volume["spec"]["claimRef"]["uid"] == mine

    @pytest.mark.parametrize(
        ("volume", "claim", "said"),
        [
            ({"claimRef": {"namespace": "other", "name": "c"}}, {}, "already bound to a different"),
            ({"storageClassName": "fast"}, {}, "storageClassName does not match"),
            ({"accessModes": ["ReadOnlyMany"]}, {}, "incompatible accessMode"),
            ({}, {"resources": {"requests": {"storage": "11Gi"}}}, "requested PV is too small"),
            ({}, {"volumeName": None}, ""),
        ],
    )
    def test_kubernetes_claim_that_does_not_fit_the_volume_stays_pending(
        self, server: Server, volume: dict[str, Any], claim: dict[str, Any], said: str
    ) -> None:
        server.volume(**volume)
        server.claim(**claim)
        phase, why = server.phase()
        assert phase == "Pending"
        assert said in why

    def test_kubernetes_volume_whose_claim_is_deleted_is_released(self, server: Server) -> None:
        server.volume()
        server.claim()
        server.phase()
        server.store.remove(CLAIMS, server.store.get(CLAIMS, SPACE, "c"))
        server.claims.reconcile(f"{SPACE}/c")
        assert server.store.get(VOLUMES, "", "v")["status"]["phase"] == "Released"
        server.claim()
        assert "already bound to a different claim" in server.phase()[1]


@pytest.mark.parametrize(
    ("resource", "spec", "said"),
    [
        (VOLUMES, {"capacity": SIZE, "accessModes": MANY}, "must specify a volume type"),
        (VOLUMES, {"accessModes": MANY, **NFS}, "spec.capacity: Required"),
        (VOLUMES, {"capacity": SIZE, "accessModes": ["Many"], **NFS}, "Unsupported value"),
        (
            VOLUMES,
            {"capacity": SIZE, "accessModes": MANY, "nfs": {"server": "a", "path": "srv"}},
            "must be an absolute path",
        ),
        (CLAIMS, {"accessModes": MANY}, "resources"),
        (QUOTAS, {"hard": {"request.cpu": "1"}}, "must be a resource for quota"),
        (QUOTAS, {"hard": {"pods": "-1"}}, "greater than or equal to 0"),
        (QUOTAS, {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, "has no scopes"),
    ],
)
def test_kubernetes_volume_claim_or_quota_that_is_invalid_is_refused(
    server: Server, resource: Resource, spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(ApiError, match=said) as raised:
        server.make(resource, {"metadata": {"name": "x"}, "spec": spec})
    assert raised.value.code == 422


def test_kubernetes_volume_source_and_claim_spec_are_immutable(server: Server) -> None:
    server.volume()
    server.claim()
    server.phase()
    with pytest.raises(ApiError, match="persistentvolumesource is immutable"):
        server.change(VOLUMES, "v", nfs={"server": "10.0.0.5", "path": "/srv/data"})
    server.change(VOLUMES, "v", mountOptions=["hard"])
    with pytest.raises(ApiError, match="spec is immutable after creation"):
        server.change(CLAIMS, "c", accessModes=["ReadOnlyMany"])
    server.change(CLAIMS, "c", resources={"requests": {"storage": "20Gi"}})


class TestQuotas:
    """Limits on the objects of a namespace."""

    @staticmethod
    def quota(server: Server, **hard: str) -> None:
        named = {name.replace("_", "."): amount for name, amount in hard.items()}
        server.make(QUOTAS, {"metadata": {"name": "most"}, "spec": {"hard": named}})

    @staticmethod
    def pod(server: Server, name: str, **limits: str) -> None:
        container = {"name": "a", "image": "sim", "resources": {"limits": limits}}
        sent = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        server.make(PODS, sent)

    def test_kubernetes_quota_refuses_a_pod_that_exceeds_it(self, server: Server) -> None:
        server.make(
            QUOTAS,
            {"metadata": {"name": "most"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}},
        )
        self.pod(server, "one", **{"nvidia.com/gpu": "6"})
        with pytest.raises(ApiError) as raised:
            self.pod(server, "two", **{"nvidia.com/gpu": "3"})
        assert raised.value.code == 403
        assert raised.value.message == (
            'pods "two" is forbidden: exceeded quota: most, requested: '
            "requests.nvidia.com/gpu=3, used: requests.nvidia.com/gpu=6, limited: "
            "requests.nvidia.com/gpu=8"
        )
        self.pod(server, "small")
        self.pod(server, "three", **{"nvidia.com/gpu": "2"})

    def test_kubernetes_quota_ignores_ended_pods(self, server: Server) -> None:
        self.quota(server, requests_cpu="1")
        self.pod(server, "one", cpu="1")
        ended = server.store.get(PODS, SPACE, "one")
        server.store.replace(PODS, {**ended, "status": {"phase": "Succeeded"}})
        self.pod(server, "two", cpu="1")

    def test_kubernetes_quota_requires_limits_of_the_resources_that_it_counts(
        self, server: Server
    ) -> None:
        self.quota(server, limits_memory="1Gi")
        with pytest.raises(ApiError, match=r"failed quota: most: must specify limits\.memory for"):
            self.pod(server, "one", cpu="1")
