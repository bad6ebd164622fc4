"""Stacks planned by Terraform itself with the outputs that other plans promise.

Terraform's own resource `terraform_data` needs no provider. Without Terraform these tests are
skipped; `test_plan.py` uses a stand-in for it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairway_core.review.attributes import UNKNOWN
from fairway_core.review.plan import read_plan
from fairway_core.review.promise import broken_promises
from fairway_core.review.review import StackReview, review
from fairway_stacks.plan import deploy
from fairway_stacks.plan.planning import live_terraform, plan_in_turn, prepare_and_plan
from fairway_stacks.plan.promised import outputs_of, with_previewed_outputs
from fairway_stacks.plan.review import Reviewer, write_report
from fairway_stacks.plan.stacks import StackFolder

needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)


def _output(stack: str, name: str) -> str:
    source = f"data.terraform_remote_state.cross-stack-reference-input-{stack}.outputs"
    return f"{source}.cross-stack-output-{name}"


def _stack(folder: Path, name: str, reads: tuple[str, ...] = (), **content: Any) -> StackFolder:
    """Writes a stack like cdktf does, with its state in `folder`."""
    here = folder / "stacks" / name
    here.mkdir(parents=True)
    states = {
        f"cross-stack-reference-input-{one}": {
            "backend": "local",
            "config": {"path": str(folder / f"{one}.tfstate")},
            "workspace": "${terraform.workspace}",
        }
        for one in reads
    }
    document = {
        "terraform": {"backend": {"local": {"path": str(folder / f"{name}.tfstate")}}},
        **({"data": {"terraform_remote_state": states}} if reads else {}),
        **content,
    }
    (here / "cdk.tf.json").write_text(json.dumps(document))
    return StackFolder(name, here, reads)


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[StackFolder]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shared = {"sensitive": True}
    network = {
        "resource": {"terraform_data": {"net": {"input": "a$${b} %%{c}"}}},
        "output": {
            "cross-stack-output-id": {"value": "${terraform_data.net.id}", **shared},
            "cross-stack-output-range": {"value": "${terraform_data.net.input}", **shared},
        },
    }
    given = {
        "id": f"${{{_output('x-network', 'id')}}}",
        "range": f"in ${{{_output('x-network', 'range')}}}",
    }
    data = {
        "resource": {"terraform_data": {"disk": {"input": given}}},
        "output": {"cross-stack-output-disk": {"value": "${terraform_data.disk.id}", **shared}},
    }
    disk = f'${{replace("disk @", "@", {_output("x-data", "disk")})}}'
    compute = {
        "resource": {"terraform_data": {"node": {"input": disk, "triggers_replace": given}}},
        "output": {"targets": {"value": [disk, "here"]}},
    }
    return [
        _stack(tmp_path, "x-network", **network),
        _stack(tmp_path, "x-data", ("x-network",), **data),
        _stack(tmp_path, "x-compute", ("x-network", "x-data"), **compute),
    ]


def _planned(stacks: list[StackFolder], folder: Path) -> list[StackReview]:
    folder.mkdir(exist_ok=True)
    plans = plan_in_turn(stacks, folder)
    return list(review([read_plan(plan.argument) for plan in plans]).stacks)


def _apply(stack: StackFolder, folder: Path) -> StackReview:
    terraform = live_terraform(stack)
    plan = prepare_and_plan(terraform, folder, lock=True)
    terraform.apply(plan.file)
    return review([read_plan(plan.argument)]).stacks[0]


@needs_terraform
def test_promised_plan_equals_later_plan_except_for_unknown_values(
    stacks: list[StackFolder], tmp_path: Path
) -> None:
    network, data, compute = _planned(stacks, tmp_path / "plans")
    assert [one.state for one in (network, data, compute)] == ["planned", "waiting", "waiting"]
    assert (data.waits_for, compute.waits_for) == (("x-network",), ("x-data", "x-network"))
    assert (data.promised, compute.promised) == (True, True)
    assert data.changes[0].created["input"] == {"id": UNKNOWN, "range": "in a${b} %{c}"}
    assert compute.changes[0].created["input"] is UNKNOWN
    assert compute.outputs[0].new == [UNKNOWN, "here"]
    _apply(stacks[0], tmp_path)
    assert broken_promises(_apply(stacks[1], tmp_path), data) == []
    found = _apply(stacks[2], tmp_path)
    assert isinstance(found.changes[0].created["input"], str)
    assert broken_promises(found, compute) == []
    # Once all stacks are deployed, none waits and nothing is left to change.
    assert [(one.state, one.changes) for one in _planned(stacks, tmp_path / "again")] == [
        ("planned", ())
    ] * 3


def test_promised_outputs_replace_states_only_temporarily(stacks: list[StackFolder]) -> None:
    file = stacks[2].folder / "cdk.tf.json"
    before = file.read_text()
    with with_previewed_outputs(stacks[2], {"x-data": {"a": 1}}):
        inside = json.loads(file.read_text())
        assert inside["locals"] == {"outputs-of-x-data": {"a": 1}}
        assert list(inside["data"]["terraform_remote_state"]) == [
            "cross-stack-reference-input-x-network"
        ]
        assert "local.outputs-of-x-data.cross-stack-output-disk" in file.read_text()
        assert file.stat().st_mode & 0o077 == 0, "outputs may be secret"
    assert file.read_text() == before


def test_promised_outputs_are_none_for_an_incomplete_plan() -> None:
    changes: dict[str, Any] = {"resource_changes": [], "output_changes": {}}
    assert outputs_of(changes) == {}
    assert outputs_of({**changes, "errored": True}) is None
    assert outputs_of({}) is None
    changes["output_changes"] = {
        "gone": {"actions": ["delete"], "before": "x", "after": None},
        "some": {
            "actions": ["create"],
            "after": {"a${b}": ["%{c}", None, 1], "d": None},
            "after_unknown": {"a${b}": [False, True], "e": {"f": True}},
        },
    }
    unknown = "${jsondecode(uuid())}"
    assert outputs_of(changes) == {
        "some": {"a$${b}": ["%%{c}", unknown, 1], "d": None, "e": {"f": unknown}}
    }


def _add(stack: StackFolder, **content: Any) -> None:
    """Adds resources and outputs to a stack that is already written."""
    file = stack.folder / "cdk.tf.json"
    document = json.loads(file.read_text())
    for section, added in content.items():
        known = document[section]
        known.update(
            added
            if section == "output"
            else {"terraform_data": {**known["terraform_data"], **added}}
        )
    file.write_text(json.dumps(document))


@needs_terraform
def test_promised_change_of_three_stacks_is_deployed_with_two_approvals(
    stacks: list[StackFolder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fairway: Callable[..., int],
) -> None:
    """Like adding and mounting a file system: a zone, a share in it, nodes that mount it."""
    monkeypatch.setattr(deploy, "synthesize", lambda *_, **__: stacks)
    for stack in stacks:
        _apply(stack, tmp_path)
    network, data, compute = stacks
    zone, share = _output("x-network", "zone"), _output("x-data", "share")
    _add(
        network,
        resource={"zone": {"input": "file"}},
        output={
            "cross-stack-output-zone": {"value": "${terraform_data.zone.id}", "sensitive": True}
        },
    )
    _add(
        data,
        resource={"share": {"input": f"${{{zone}}}"}},
        output={
            "cross-stack-output-share": {"value": "${terraform_data.share.id}", "sensitive": True}
        },
    )
    _add(compute, resource={"mount": {"input": f"${{{share}}}"}})

    def reported(folder: Path) -> Path:
        folder.mkdir()
        plans = plan_in_turn(stacks, folder)
        write_report(Reviewer().review(plans), folder)
        return folder / "review.json"

    first, second = reported(tmp_path / "first"), tmp_path / "second"
    states = [each["state"] for each in json.loads(first.read_text())["stacks"]]
    assert states == ["planned", "waiting", "waiting"]
    assert fairway("deploy", "x", "--approved", str(first), "--report", str(second)) == 2
    assert fairway("deploy", "x", "--approved", str(second / "review.json")) == 0
    assert [one.changes for one in _planned(stacks, tmp_path / "again")] == [()] * 3
