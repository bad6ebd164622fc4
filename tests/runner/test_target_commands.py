"""The commands about targets and their nodes, on the one that is always there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

POOL = {
    "name": "spot",
    "engine": "batch",
    "vm_size": "Standard_ND96asr_v4",
    "nodes": {"min": 0, "max": 8},
    "mounts": {"data": "/data"},
    "batch": {"pool": "spot"},
}

RunFairway = Callable[..., tuple[int, str, str]]


def test_targets_are_listed_with_what_they_have(tmp_path: Path, fairway: RunFairway) -> None:
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [POOL]}))
    code, out, _ = fairway(tmp_path, "targets", "--offline", "--json")
    assert code == 0
    local, spot = json.loads(out)
    assert local["name"] == "local"
    assert spot["gpus"] == 8
    assert spot["infiniband_gbps"] == 1600
    assert (spot["nodes_now"], spot["nodes_max"]) == (None, 8)
    assert spot["source"] == str(tmp_path / "fairway.yaml")
    code, out, _ = fairway(tmp_path, "targets", "--offline")
    assert "?/8" in out
    assert "data:/data" in out


def test_sync_replaces_what_was_read_before(tmp_path: Path, fairway: RunFairway) -> None:
    outputs = tmp_path / "outputs.json"
    for name in ("one", "two"):
        outputs.write_text(json.dumps({"x-compute": {"targets": [{**POOL, "name": name}]}}))
        code, out, _ = fairway(tmp_path, "targets", "sync", "--from", str(outputs))
        assert code == 0
        assert name in out
    code, out, _ = fairway(tmp_path, "targets", "--offline", "--json")
    assert [each["name"] for each in json.loads(out)] == ["local", "two"]


def test_this_machine_is_a_node(tmp_path: Path, fairway: RunFairway) -> None:
    code, out, _ = fairway(tmp_path, "nodes", "list", "local", "--json")
    assert code == 0
    assert [node["name"] for node in json.loads(out)] == ["localhost"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nodes", "list", "lcoal"], "there is no target `lcoal`"),
        (["nodes", "rebot", "local", "x"], "did you mean `reboot`?"),
        (["nodes", "reboot", "local"], "Missing argument 'NODE…'"),
        # As these were spelt before they were groups.
        (["nodes", "spot"], "type: fairway nodes list spot"),
        (["nodes", "spot", "--json"], "type: fairway nodes list spot --json"),
        (["schedule", "job.yaml", "--every", "6h"], "schedule create job.yaml --every 6h"),
        (["nodes", "reboot", "local", "localhost"], "`local` cannot reboot a node"),
        (["pool", "resize", "local", "3"], "`local` cannot be resized"),
        (["pool", "resize", "spot", "9"], "`spot` has 8 nodes at most"),
        (["ssh", "local"], "`local` cannot be connected to"),
        (["ssh", "local", "n1", "uptime"], "fairway ssh local n1 -- uptime"),
        (["tunnel", "nothing-1", "6006"], "there is no run `nothing-1`"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, fairway: RunFairway, words: list[str], message: str
) -> None:
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [POOL]}))
    code, _, err = fairway(tmp_path, *words)
    assert code == 2
    assert message in err


def test_an_ended_run_has_no_tunnel(
    tmp_path: Path, fairway: RunFairway, make_run: Callable[..., object]
) -> None:
    make_run("job-aaaaaa")
    code, _, err = fairway(tmp_path, "tunnel", "job-aaaaaa", "6006")
    assert code == 2
    assert "job-aaaaaa has ended" in err
