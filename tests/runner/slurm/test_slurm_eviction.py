"""How a run leaves a Spot node: what the node's watcher tells a job's batch script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_agent.control import Part
from fairway_boot.imds import Event, Metadata
from fairway_boot.slurm import commands, eviction
from fairway_boot.slurm.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_job_of_ours_is_asked_and_another_sent_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_file = tmp_path / "name"
    name_file.write_text('SLURMD_OPTIONS="-N nd-0"\n')
    comment = Part("tasks", 0, [0], 1, 1).comment("digits-abc", 0)
    told: list[str] = []
    listed = [f"12 {comment}\n13 \n", f"12 {comment}\n", f"12 {comment}\n", ""]

    def tell(_settings: Settings, *words: str, **_: Any) -> str:
        if words[0] == "squeue":
            return listed.pop(0) if listed else ""
        told.append(" ".join(words))
        return "NodeName=nd-0 State=MIXED"

    monkeypatch.setattr(commands, "tell", tell)
    monkeypatch.setattr(Metadata, "acknowledge", lambda _, event: told.append(event.id))
    monkeypatch.setattr(eviction, "_SECOND", 0.0)
    settings = Settings(scale_sets={}, name_file=str(name_file))
    eviction.leave(settings, Metadata(), Event("E1", "Preempt"))
    assert told[-1] == "E1"
    assert "scancel --batch --signal=USR2 12" in told
    assert "scontrol requeue 13" in told
    assert "scontrol requeue 12" not in told
    assert sum("USR2" in each for each in told) == 1
