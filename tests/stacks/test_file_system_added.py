"""A file system is added to a deployed environment and mounted, from the plan to the deployment.

The plans are those of azurerm 5.2.0 in `tests/core/review/over_time`. It had stopped where the
outputs of other stacks were missing; what it would have planned with them is added below.
"""

import copy
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairway_stacks.plan import deploy
from fairway_stacks.plan import planning as stack_plans
from fairway_stacks.plan.stacks import StackFolder

Fairway = Callable[..., int]

OVER_TIME = Path(__file__).parents[1] / "core/review/over_time"
NETWORK, DATA, COMPUTE = STACKS = ("mix-network", "mix-data", "mix-compute")
PAIR = "azurerm_linux_virtual_machine_scale_set.cluster-pair"
ENDPOINT = "azurerm_private_endpoint.files-home-endpoint"


def _recorded(change: str) -> dict[str, Any]:
    text = lzma.decompress((OVER_TIME / f"{change}.json.xz").read_bytes())
    found: dict[str, Any] = json.loads(text)
    return found


def _whole(plan: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
    """The errored plan, with what it could not plan, as one that went to its end."""
    whole = copy.deepcopy(plan)
    known = {each["address"] for each in changes}
    kept = [each for each in whole["resource_changes"] if each["address"] not in known]
    whole.update(errored=False, complete=True, resource_changes=[*kept, *changes])
    whole.update(resource_drift=[], configuration={}, prior_state={})
    return whole


def _endpoint() -> dict[str, Any]:
    after = {"name": "mix-pe-home", "private_dns_zone_group": [{"name": "default"}]}
    change = {"actions": ["create"], "before": None, "after": after, "after_unknown": {"id": True}}
    kind, name = ENDPOINT.split(".")
    return {"address": ENDPOINT, "type": kind, "name": name, "mode": "managed", "change": change}


def _plans() -> dict[str, Any]:
    errored = _recorded("add-fs-mounted")
    # What a mount changes of a cluster, as the change of a path does.
    paths = _recorded("path")[COMPUTE]["resource_changes"]
    pair = next(each for each in paths if each["address"] == PAIR)
    compute = _whole(errored[COMPUTE], pair)
    mounts = {"actions": ["update"], "before": ["/data"], "after": ["/data", "/home"]}
    compute["output_changes"] = {"targets": {**mounts, "after_unknown": False}}
    return {
        NETWORK: {"whole": errored[NETWORK]},
        DATA: {
            "needs": NETWORK,
            "reads": ["private_dns_zone_group"],
            "errored": errored[DATA],
            "whole": _whole(errored[DATA], _endpoint()),
        },
        COMPUTE: {
            "needs": DATA,
            "reads": ["custom_data"],
            "errored": errored[COMPUTE],
            "whole": compute,
        },
    }


@pytest.fixture
def replay(
    tmp_path: Path, as_terraform: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Terraform plays the recorded plans; the stacks lie written in a folder of their own."""
    folder = as_terraform("terraform_replay.py")
    (folder / "plans.json").write_text(json.dumps(_plans()))
    monkeypatch.setenv("TERRAFORM_REPLAY", str(folder))
    monkeypatch.chdir(tmp_path)

    def written(_: str, outdir: Path) -> list[StackFolder]:
        found = []
        for number, name in enumerate(STACKS):
            here = outdir / "stacks" / name
            here.mkdir(parents=True, exist_ok=True)
            states = {
                f"cross-stack-reference-input-{one}": {"backend": "local", "config": {}}
                for one in STACKS[:number]
            }
            document: dict[str, Any] = {"terraform": {"backend": {"local": {"path": "x"}}}}
            if states:
                document["data"] = {"terraform_remote_state": states}
            (here / "cdk.tf.json").write_text(json.dumps(document))
            found.append(StackFolder(name, here, STACKS[:number]))
        (outdir / "manifest.json").write_text(
            json.dumps(
                {
                    "stacks": {
                        one.name: {
                            "workingDirectory": f"stacks/{one.name}",
                            "dependencies": one.dependencies,
                        }
                        for one in found
                    }
                }
            )
        )
        return found

    monkeypatch.setattr(stack_plans, "synthesize", written)
    monkeypatch.setattr(deploy, "synthesize", written)
    return folder


def _applied(replay: Path) -> list[str]:
    file = replay / "applied.txt"
    return file.read_text().split() if file.exists() else []


def _review(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "review.json").read_text())
    return {each["stack"]: each for each in found["stacks"]}


def _addresses(stack: dict[str, Any]) -> set[str]:
    return {each["address"] for each in stack["changes"]}


def test_file_system_added_is_planned_and_deployed_with_two_approvals(
    replay: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert fairway("plan", "mix", "--report", str(first)) == 0
    assert "Unsupported attribute" not in capfd.readouterr().err
    found = _review(first)
    assert [each["state"] for each in found.values()] == ["planned", "waiting", "waiting"]
    assert (found[DATA]["waits_for"], found[COMPUTE]["waits_for"]) == ([NETWORK], [DATA])
    # All of it is shown before anything is done: also what the provider could not plan.
    assert _addresses(found[DATA]) >= {ENDPOINT, "azurerm_storage_share.files-home-share"}
    assert PAIR in _addresses(found[COMPUTE])
    assert "mixed-nodes" in {each["id"] for each in found[COMPUTE]["findings"]}
    assert _applied(replay) == []

    approved = ["deploy", "mix", "--approved", str(first / "review.json")]
    assert fairway(*approved, "--report", str(second)) == 2
    assert _applied(replay) == [NETWORK]
    assert f"fairway deploy --approved {second / 'review.json'}" in capfd.readouterr().err
    found = _review(second)
    assert [each["state"] for each in found.values()] == ["planned", "planned", "waiting"]
    assert found[NETWORK]["changes"] == []

    outputs = tmp_path / "outputs.json"
    approved = ["deploy", "mix", "--approved", str(second / "review.json")]
    assert fairway(*approved, "--outputs-file", str(outputs)) == 0
    assert _applied(replay) == [*STACKS]
    assert set(json.loads(outputs.read_text())) == set(STACKS)

    assert fairway("plan", "mix") == 0
    assert capfd.readouterr().out.count("nothing would change") == len(STACKS) + 1
