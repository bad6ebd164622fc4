"""What `doctor` says of a cluster, and what a partition is found to offer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fairway_agent.shared.reports import Health, HeldJob, NodeReport, NodesReport, SubmitRequest
from fairway_agent.slurm import nodes
from fairway_boot.files import Fault
from fairway_boot.slurm import commands
from fairway_core.target import NodeRange, SlurmAccess, Target
from fairway_runner.engines.slurm.engine import SlurmEngine, is_unfit

ACCESS = SlurmAccess(host="nd-scheduler", user="azureuser", partition="nd", shared="/data/fairway")
TARGET = Target(name="nd", engine="slurm", nodes=NodeRange(min=0, max=2), slurm=ACCESS)


def said(*nodes: NodeReport, **changes: Any) -> list[str]:
    now = time.time()
    facts = {"available": "up", "held": (), "free": 1 << 40, "time": now, **changes}
    found = NodesReport(nodes or (NodeReport("nd-0", "idle~"),), Health(**facts))
    return [each.message for each in SlurmEngine(TARGET).findings_of(found, now, now)]


def test_a_sound_cluster_has_no_findings() -> None:
    assert said() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fault": "Read-only file system"}, "/data/fairway cannot be used: Read-only"),
        ({"free": 1 << 20}, "/data/fairway has 1 MiB left"),
        ({"time": time.time() - 600}, "the login host's clock differs by"),
        ({"available": "down"}, "partition `nd` is down"),
        ({"available": "missing"}, "partition `nd` is missing"),
        (
            {"held": (HeldJob("7", "digits-abc", "JobHeldAdmin"),)},
            "Slurm holds the job 7 (digits-abc): JobHeldAdmin",
        ),
    ],
)
def test_slurm_health_reports_each_fault(changes: dict[str, Any], message: str) -> None:
    [found] = said(**changes)
    assert message in found


@pytest.mark.parametrize(
    ("said_by_slurm", "hint"),
    [
        ("slurm_update error: Access/permission denied", "try it with sudo on the scheduler"),
        ("slurm_update error: Invalid node name specified", "scontrol show node nd-9"),
    ],
)
def test_an_action_that_slurm_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, said_by_slurm: str, hint: str
) -> None:
    def refuse(_: object) -> str:
        raise commands.Refused(said_by_slurm)

    monkeypatch.setattr(commands, "run", refuse)
    with pytest.raises(Fault) as caught:
        nodes._act("drain", "nd-9")
    assert caught.value.record["message"] == f"Slurm does not drain nd-9: {said_by_slurm}"
    assert hint in caught.value.record["hint"]
    assert caught.value.record["exit_code"] == 5


def test_nodes_that_take_no_jobs_say_why() -> None:
    unfit = NodeReport("nd-0", "drained", reason="XID 79")
    assert said(unfit, NodeReport("nd-1", "allocated")) == ["the node nd-0 is drained: XID 79"]


def test_a_partition_that_the_scheduler_took_down_says_why() -> None:
    why = "fairway: instances that never joined: 4, round 3 of 3: the partition is down"
    node = NodeReport("nd-0", "down~", reason=why)
    assert said(node, available="down")[0] == f"Slurm's partition `nd` is down: {why}"


FIT = ("idle", "idle~", "mixed#", "allocated", "completing", "idle%")
UNFIT = ("down", "down~", "draining", "drained", "idle*", "fail")


@pytest.mark.parametrize("state", [*FIT, *UNFIT])
def test_nodes_that_do_not_answer_are_unfit_and_those_that_come_and_go_fit(state: str) -> None:
    assert is_unfit(state) is (state in UNFIT)


@pytest.mark.parametrize(
    ("line", "feature", "gpus"),
    [
        ("nd96isr_h100_v5,ib,dedicated|gpu:h100:8|96", "nd96isr_h100_v5", 8),
        ("nd96isr_h100_v5|gpu:8(S:0-1)|96+", "nd96isr_h100_v5", 8),
        ("other|(null)|96", "", 0),
        ("(null)|(null)|4", "", 0),
    ],
)
def test_a_partition_offers_what_slurm_knows_of_it(
    monkeypatch: pytest.MonkeyPatch, line: str, feature: str, gpus: int
) -> None:
    monkeypatch.setattr(commands, "run", lambda *_: f"{line}|1900000\n")
    size = "Standard_ND96isr_H100_v5"
    request = SubmitRequest("job-a", 0, partition="nd", vm_size=size, gpus=8, nice=1000)
    found = nodes.partition_resources(request)
    assert (found.feature, found.gpus) == (feature, gpus)


def test_a_partition_that_is_not_there_names_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run", lambda words: "" if "-p" in words else "nd\nhb\n")
    with pytest.raises(Fault) as raised:
        nodes.partition_resources(SubmitRequest("job-a", 0, partition="nb"))
    assert raised.value.record["hint"] == "it has: hb, nd"
