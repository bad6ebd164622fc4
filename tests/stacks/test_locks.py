"""`fairway deploy` removes a role below a lock and recreates the lock."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairway_core.findings import UserError
from fairway_stacks.plan import deploy

Fairway = Callable[..., int]
StandIn = Any

ACCOUNT, LOCK = "azurerm_storage_account.storage", "azurerm_management_lock.storage-lock"
ROLE = "azurerm_role_assignment.container-code-used-by-ada"
ALLOW = ["--allow", LOCK]


class Azure:
    """Resources of the data stack, whose account has a lock and a superfluous role."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "demo-data.azure.json"
        values = {ACCOUNT: {"id": "/a"}, ROLE: {"id": "/a/x/role"}, LOCK: {"scope": "/a"}}
        self._write({name: {"there": True, "values": each} for name, each in values.items()})

    def _write(self, resources: dict[str, Any]) -> None:
        self._file.write_text(json.dumps(resources))

    def there(self) -> set[str]:
        found = json.loads(self._file.read_text())
        return {name for name, each in found.items() if each["there"]}

    def remove(self, *addresses: str) -> None:
        found = json.loads(self._file.read_text())
        for each in addresses:
            found[each]["there"] = False
        self._write(found)


@pytest.fixture
def azure(quick: StandIn, synthesized: Path, monkeypatch: pytest.MonkeyPatch) -> Azure:
    copied = deploy.synthesize

    def locked(environment: str, outdir: Path, **options: Any) -> Any:
        stacks = copied(environment, outdir, **options)
        file = outdir / "stacks" / "demo-data" / "cdk.tf.json"
        document = json.loads(file.read_text())
        document["resource"]["azurerm_management_lock"] = {"storage-lock": {"scope": "/a"}}
        file.write_text(json.dumps(document))
        return stacks

    monkeypatch.setattr(deploy, "synthesize", locked)
    monkeypatch.setattr("fairway_stacks.plan.planning.synthesize", locked)
    return Azure(quick.folder)


def _plan(
    fairway: Fairway, folder: Path, capfd: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, str], dict[str, str]]:
    """Returns the exit code, actions by address, and severities by finding id of the data stack."""
    capfd.readouterr()
    code = fairway("plan", "demo", "--json", "--report", str(folder), *options)
    (data,) = (
        each
        for each in json.loads(capfd.readouterr().out)["stacks"]
        if each["stack"] == "demo-data"
    )
    actions = {change["address"]: change["action"] for change in data["changes"]}
    return code, actions, {each["id"]: each["severity"] for each in data["findings"]}


def test_plan_refuses_removal_of_a_role_below_a_lock(
    azure: Azure, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    there = azure.there()
    code, actions, found = _plan(fairway, tmp_path, capfd)
    assert (code, actions) == (2, {ROLE: "destroy"})
    assert found == {"held-by-lock": "error"}
    assert fairway("deploy", "demo", "--approved", str(tmp_path / "review.json")) == 2
    assert azure.there() == there


def test_deploy_with_lock_allowed_removes_role_and_recreates_lock(
    azure: Azure,
    quick: StandIn,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
) -> None:
    code, actions, found = _plan(fairway, tmp_path, capfd, *ALLOW)
    assert (code, actions) == (0, {ROLE: "destroy", LOCK: "destroy"})
    assert found == {"left-unlocked": "warning"}
    quick.forget()
    approved = ["--approved", str(tmp_path / "review.json")]
    assert fairway("deploy", "demo", *approved, *ALLOW) == 0
    assert azure.there() == {ACCOUNT, LOCK}
    applied = [each["stack"] for each in quick.calls() if each["command"] == "apply"]
    assert applied.count("demo-data") == 2
    # An allowed lock is kept if no change requires its removal.
    assert _plan(fairway, tmp_path, capfd, *ALLOW) == (0, {}, {})


@pytest.mark.parametrize("gone", [(LOCK,), (LOCK, ROLE)], ids=["lock", "lock-and-role"])
def test_plan_after_a_killed_deploy_recreates_lock_and_removes_role(
    azure: Azure,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
    gone: tuple[str, ...],
) -> None:
    """The command may be killed before the role is removed or before the lock is recreated."""
    azure.remove(*gone)
    code, actions, found = _plan(fairway, tmp_path, capfd)
    assert code == 0
    if ROLE in gone:
        assert actions == {LOCK: "create"}
        assert found == {"unlocked": "warning"}
    else:
        assert actions == {ROLE: "destroy"}
        assert found == {"left-unlocked": "warning"}
    assert fairway("deploy", "demo", "--approved", str(tmp_path / "review.json")) == 0
    assert azure.there() == {ACCOUNT, LOCK}


def test_deploy_killed_halfway_reports_the_missing_lock(
    azure: Azure,
    quick: StandIn,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
) -> None:
    assert _plan(fairway, tmp_path, capfd, *ALLOW)[0] == 0
    quick.fault(data_apply="killed")
    approved = ["--approved", str(tmp_path / "review.json")]
    assert fairway("deploy", "demo", *approved, *ALLOW) == 5
    assert azure.there() == {ACCOUNT, ROLE}
    assert f"demo-data: without {LOCK}" in capfd.readouterr().err


def test_deploy_requires_approval_if_second_plan_changes_more_than_the_lock(
    azure: Azure, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """For instance, somebody deletes a resource in Azure between the two plans."""
    assert _plan(fairway, tmp_path, capfd, *ALLOW)[0] == 0

    def before(plan: Mapping[str, Any]) -> None:
        actions = {each["address"]: each["change"]["actions"] for each in plan["resource_changes"]}
        if actions.get(LOCK) == ["delete"]:
            azure.remove(ACCOUNT)

    person = deploy.Person(lambda _: None, None, before)
    following = tmp_path / "next"
    with pytest.raises(UserError) as stopped:
        deploy.deploy("demo", tmp_path / "review.json", person, allow=[LOCK], report=following)
    assert [each.id for each in stopped.value.findings] == ["not-approved"]
    assert azure.there() == set()
    assert fairway("deploy", "demo", "--approved", str(following / "review.json")) == 0
    assert azure.there() == {ACCOUNT, LOCK}
