"""Changes that the health check makes to its node, and those that it leaves to others."""

import calendar
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from fairway_agent.kubernetes import node_health, nodes
from fairway_agent.kubernetes.api import CONDITION, CORDONED, HELD, MACHINE, TAKEN, RequestRefused
from fairway_agent.kubernetes.node_health import NodeHealth, Verdict
from fairway_boot.http import Failure
from fairway_boot.imds import Machine
from fairway_core.machine import Machine as Reported

GPUS = {"nvidia.com/gpu": "8", "rdma/ib": "8"}
BROKEN = Verdict("True", "7 of 8 GPUs")


@dataclass
class Server:
    """An API server with one node, which applies strategic merge patches."""

    notes: dict[str, str] = field(default_factory=dict)
    closed: bool = False
    conditions: dict[str, dict[str, str]] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=lambda: dict(GPUS))
    boot: str = ""
    version: int = 1
    between: list[Any] = field(default_factory=list)
    """Changes by others after the node was read."""

    def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        spec = {"unschedulable": True} if self.closed else {}
        found = {
            "metadata": {
                "name": "nd-0",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": dict(self.notes),
                "resourceVersion": str(self.version),
            },
            "spec": spec,
            "status": {
                "capacity": self.capacity,
                "conditions": list(self.conditions.values()),
                "nodeInfo": {"bootID": self.boot},
            },
        }
        return json.loads(json.dumps(found))

    def call(self, method: str, path: str, change: Any) -> None:
        assert method == "PATCH"
        if path.endswith("/status"):
            for each in change["status"]["conditions"]:
                self.conditions[each["type"]] = each
            return
        if self.between:
            self.between.pop(0)(self)
            self.version += 1
        if change["metadata"].pop("resourceVersion") != str(self.version):
            raise RequestRefused(TAKEN, "the object has been modified")
        self.version += 1
        for name, text in change["metadata"].get("annotations", {}).items():
            if text is None:
                self.notes.pop(name, None)
            else:
                self.notes[name] = text
        if "spec" in change:
            self.closed = change["spec"]["unschedulable"]

    @property
    def said(self) -> tuple[str, str]:
        found = self.conditions[CONDITION]
        return found["status"], found["message"]


@pytest.fixture
def server() -> Server:
    return Server()


def look(server: Server, text: str = "exit 0", machine: str = "") -> Verdict:
    check = ["bash", "-c", text]
    return NodeHealth(server, "nd-0", check, list(GPUS)).look(machine)  # type: ignore[arg-type]


FAULT = "printf 'hardware: 7 of 8 GPUs; XID 79 on 0001:00:00; '; exit 1"


def test_node_health_cordons_a_broken_node_and_uncordons_it_once_healthy(server: Server) -> None:
    look(server)
    assert server.said[0] == "False"
    assert not server.closed
    look(server, FAULT)
    assert server.said == ("True", "7 of 8 GPUs; XID 79 on 0001:00:00")
    assert server.closed
    assert server.notes == {CORDONED: "7 of 8 GPUs; XID 79 on 0001:00:00"}
    assert server.conditions[CONDITION]["reason"] == "FaultFound"
    look(server)
    assert (server.said[0], server.closed, server.notes) == ("False", False, {})


@pytest.mark.parametrize("before", [True, False], ids=["", "at the same moment"])
def test_node_health_does_not_uncordon_a_node_that_a_user_cordoned(
    server: Server, before: bool
) -> None:
    server.closed = before
    server.between = [] if before else [lambda other: setattr(other, "closed", True)]
    look(server, FAULT)
    assert (server.closed, server.notes, server.said[0]) == (True, {}, "True")
    look(server)
    assert (server.said[0], server.closed) == ("False", True)


def test_node_health_respects_an_uncordon_by_a_user_but_not_by_an_aks_update(
    server: Server,
) -> None:
    for boot in ("first", "second"):
        server.boot = boot
        look(server, FAULT)
        assert server.closed, "another update lets it back, and is no person"
        server.closed = False
        look(server, FAULT)
        assert not server.closed
    look(server)
    assert (server.closed, server.notes) == (False, {})
    look(server, FAULT)
    assert server.closed, "that is another fault"


def test_node_health_of_a_new_node_without_drivers_is_unknown(server: Server) -> None:
    for capacity in ({}, {"nvidia.com/gpu": "8"}, {**GPUS, "rdma/ib": "0"}):
        server.capacity = capacity
        look(server, FAULT)
        assert server.said[0] == "Unknown"
        assert not server.closed
    assert server.said[1] == "the node does not offer rdma/ib yet"


def test_node_health_stays_broken_if_devices_disappear(server: Server) -> None:
    look(server, FAULT)
    server.capacity = {}
    look(server)
    assert (server.said, server.closed) == (("True", "7 of 8 GPUs; XID 79 on 0001:00:00"), True)


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("echo no file >&2; exit 127", "Unknown", "the health check ended with 127: no file"),
        ("exit 1", "Unknown", "the health check ended with 1: "),
        ("exec sleep 600", "True", "the health check does not end in 0 seconds"),
    ],
)
def test_node_health_is_unknown_if_the_check_fails_and_bad_if_it_never_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch, text: str, status: str, message: str
) -> None:
    if status == "True":
        monkeypatch.setattr(node_health, "_LONGEST", 0.2)
    look(server, text)
    assert (server.said, server.closed) == ((status, message), status == "True")


def test_node_health_ignores_a_fault_that_passes_at_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    once = f"[ -e {tmp_path}/seen ] || {{ touch {tmp_path}/seen; echo down; exit 1; }}"
    health = NodeHealth(server, "nd-0", ["bash", "-c", once], (), pause=30.0)  # type: ignore[arg-type]
    assert health.look().status == "False"
    assert 30.0 in pauses
    assert not server.closed


def test_node_health_condition_time_is_that_of_its_last_change() -> None:
    node: dict[str, Any] = {"status": {}}
    first = node_health.condition_of(node, BROKEN, 0.0)
    node["status"]["conditions"] = [first]
    again = node_health.condition_of(node, BROKEN, 60.0)
    assert again["lastTransitionTime"] == first["lastTransitionTime"]
    assert again["lastHeartbeatTime"] == "1970-01-01T00:01:00Z"
    sound = node_health.condition_of(node, Verdict("False", ""), 60.0)
    assert sound["lastTransitionTime"].endswith("01:00Z")


def test_node_health_leaves_an_unchecked_node_unchanged() -> None:
    for notes in ({}, {CORDONED: "7 of 8 GPUs"}):
        node = {"metadata": {"annotations": notes}, "spec": {"unschedulable": True}, "status": {}}
        assert node_health.change_of(node, Verdict("Unknown", ""), "", is_new=True) == {}


def test_node_health_keeps_a_new_node_until_its_drivers_come_or_are_overdue(server: Server) -> None:
    made = calendar.timegm((2026, 1, 1, 0, 0, 0))
    kept = "cluster-autoscaler.kubernetes.io/scale-down-disabled"  # FAQ.md of cluster-autoscaler
    held = {HELD: "true", kept: "true"}

    def look_at(minutes: float, **capacity: str) -> dict[str, str]:
        server.capacity = capacity
        health = NodeHealth(server, "nd-0", ["true"], list(GPUS))  # type: ignore[arg-type]
        replace(health, clock=lambda: made + 60 * minutes).look()
        return server.notes

    assert look_at(2) == look_at(59, **{"nvidia.com/gpu": "8"}) == held
    assert look_at(61) == {}, "they do not come: nobody is to pay for it"
    assert look_at(5) == held
    assert look_at(20, **GPUS) == {}
    server.notes = {kept: "true"}
    assert look_at(2) == look_at(20, **GPUS) == {kept: "true"}, "another keeps it"


def test_node_health_checks_a_new_node_as_soon_as_it_has_its_drivers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first pods come at that time too; five minutes later they would have begun on a broken
    node."""
    server.capacity = {}
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            server.capacity = dict(GPUS)
        if len(pauses) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(node_health, "Api", lambda: server)
    monkeypatch.setattr(node_health, "machine_of", lambda _: "")
    monkeypatch.setattr(node_health, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
    monkeypatch.setenv("FAIRWAY_NODE", "nd-0")
    words = ["--every=300", "--pause=0", "--offers=rdma/ib", "--", "bash", "-c", FAULT]
    with pytest.raises(KeyboardInterrupt):
        node_health.main(words)
    assert pauses == [20, 20, 0, 300]
    assert server.closed


def test_node_health_notes_the_vm_of_a_node_once(server: Server, tmp_path: Path) -> None:
    values = tmp_path / "kvp"
    name = b"PhysicalHostName"
    values.write_bytes(name.ljust(512, b"\0") + b"DSM01".ljust(2048, b"\0"))

    azure = Mock(side_effect=[Failure(404, "NotFound", "no such service")])
    assert node_health.machine_of(Mock(machine=azure), values) == ""
    azure = Mock(return_value=Machine("nd_0", "aa-7", "/subscriptions/s/x"))
    machine = node_health.machine_of(Mock(machine=azure), values)
    assert machine == "host=DSM01,vm=aa-7,resource=/subscriptions/s/x"
    look(server, machine=machine)
    assert server.notes == {MACHINE: machine}
    version = server.version
    look(server, machine=machine)
    assert server.version == version, "there was nothing to change"


@pytest.mark.parametrize(
    ("note", "noted"),
    [
        ("host=DSM01,vm=aa,resource=/s/Mine", True),
        ("", False),
        ("host=DSM01,vm=aa,resource=/s/other", False),
        ("resource=/s/other,vm=resource=/s/mine", False),
        ("resource=/s/other,xresource=/s/mine", False),
        ("resource=/s/mine,resource=/s/other", False),
    ],
)
def test_node_machine_note_that_names_another_vm_is_ignored(note: str, noted: bool) -> None:
    """Others may write the note, and the VM is reported to Azure as broken."""
    node = {"spec": {"providerID": "azure:///s/mine"}, "metadata": {"annotations": {MACHINE: note}}}
    if noted:
        assert nodes._machine(node) == note
    else:
        assert Reported.parse(nodes._machine(node)) == Reported("/s/mine")
    assert nodes._machine({**node, "spec": {"providerID": "kind://docker/x"}}) == ""
