"""Resources of a partition, actions on its nodes, and jobs that leave an evicted Spot node."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fairway_agent.control import Part
from fairway_agent.shared.reports import SubmitRequest
from fairway_agent.slurm import nodes
from fairway_boot.files import AgentError
from fairway_boot.imds import Event, Metadata
from fairway_boot.slurm import commands, eviction
from fairway_boot.slurm.settings import Settings


@pytest.mark.parametrize(
    ("said_by_slurm", "hint"),
    [
        ("slurm_update error: Access/permission denied", "try it with sudo on the scheduler"),
        ("slurm_update error: Invalid node name specified", "scontrol show node nd-9"),
    ],
)
def test_slurm_node_action_that_slurm_refuses_is_reported_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, said_by_slurm: str, hint: str
) -> None:
    monkeypatch.setattr(commands, "run", Mock(side_effect=commands.CommandFailed(said_by_slurm)))
    with pytest.raises(AgentError) as caught:
        nodes._act("drain", "nd-9")
    assert caught.value.record["message"] == f"Slurm does not drain nd-9: {said_by_slurm}"
    assert hint in caught.value.record["hint"]
    assert caught.value.record["exit_code"] == 5


@pytest.mark.parametrize(
    ("line", "feature", "gpus"),
    [
        ("nd96isr_h100_v5,ib,dedicated|gpu:h100:8|96", "nd96isr_h100_v5", 8),
        ("nd96isr_h100_v5|gpu:8(S:0-1)|96+", "nd96isr_h100_v5", 8),
        ("other|(null)|96", "", 0),
        ("(null)|(null)|4", "", 0),
    ],
)
def test_slurm_partition_resources_are_parsed_from_sinfo(
    monkeypatch: pytest.MonkeyPatch, line: str, feature: str, gpus: int
) -> None:
    monkeypatch.setattr(commands, "run", lambda *_: f"{line}|1900000\n")
    size = "Standard_ND96isr_H100_v5"
    request = SubmitRequest("job-a", 0, partition="nd", vm_size=size, gpus=8, nice=1000)
    found = nodes.partition_resources(request)
    assert (found.feature, found.gpus) == (feature, gpus)


def test_slurm_partition_that_does_not_exist_is_reported_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "run", lambda words: "" if "-p" in words else "nd\nhb\n")
    with pytest.raises(AgentError) as raised:
        nodes.partition_resources(SubmitRequest("job-a", 0, partition="nb"))
    assert raised.value.record["hint"] == "it has: hb, nd"


def test_slurm_eviction_signals_jobs_of_fairway_and_requeues_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_file = tmp_path / "name"
    name_file.write_text('SLURMD_OPTIONS="-N nd-0"\n')
    comment = Part("tasks", 0, [0], 1, 1).comment(tmp_path / "digits-abc", 0)
    told: list[str] = []
    listed = [f"12 {comment}\n13 \n", f"12 {comment}\n", f"12 {comment}\n", ""]

    def tell(_settings: Settings, *words: str, **_: Any) -> str:
        if words[0] == "squeue":
            return listed.pop(0) if listed else ""
        told.append(" ".join(words))
        return "NodeName=nd-0 State=MIXED"

    monkeypatch.setattr(commands, "run_command", tell)
    monkeypatch.setattr(Metadata, "acknowledge", lambda _, event: told.append(event.id))
    monkeypatch.setattr(eviction, "_SECOND", 0.0)
    settings = Settings(scale_sets={}, name_file=str(name_file))
    eviction.drain_and_approve(settings, Metadata(), Event("E1", "Preempt"), "news")
    assert told[-1] == "E1"
    assert "scancel --batch --signal=USR2 12" in told
    assert "scontrol requeue 13" in told
    assert "scontrol requeue 12" not in told
    assert sum("USR2" in each for each in told) == 1
