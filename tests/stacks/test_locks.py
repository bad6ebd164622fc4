"""A role below a lock is taken away by `fairway deploy`, and the lock comes back."""

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
    """Resources of the stack with the data, whose account has a lock and a role too many."""

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

    def locked(environment: str, outdir: Path) -> Any:
        stacks = copied(environment, outdir)
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
    """Exit code, actions by address, and severities by the id of a finding, of that stack."""
    capfd.readouterr()
    code = fairway("plan", "demo", "--json", "--report", str(folder), *options)
    (data,) = (
        each
        for each in json.loads(capfd.readouterr().out)["stacks"]
        if each["stack"] == "demo-data"
    )
    actions = {change["address"]: change["action"] for change in data["changes"]}
    return code, actions, {each["id"]: each["severity"] for each in data["findings"]}


def test_plan_of_a_role_below_a_lock_is_refused_and_applies_nothing(
    azure: Azure, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    there = azure.there()
    code, actions, found = _plan(fairway, tmp_path, capfd)
    assert (code, actions) == (2, {ROLE: "destroy"})
    assert found == {"held-by-lock": "error"}
    assert fairway("deploy", "demo", "--approved", str(tmp_path / "review.json")) == 2
    assert azure.there() == there


def test_deploy_with_the_lock_allowed_revokes_the_role_and_puts_the_lock_back(
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
    # The lock stays where nothing is in its way, whatever is allowed.
    assert _plan(fairway, tmp_path, capfd, *ALLOW) == (0, {}, {})


@pytest.mark.parametrize("gone", [(LOCK,), (LOCK, ROLE)], ids=["lock", "lock-and-role"])
def test_next_plan_after_a_kill_puts_the_lock_back_and_leaves_no_role(
    azure: Azure,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
    gone: tuple[str, ...],
) -> None:
    """The command may be killed before the role is gone, or before the lock is back."""
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


def test_apply_that_ends_halfway_says_that_the_lock_is_gone(
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


def test_more_than_the_lock_in_the_second_plan_is_to_be_approved(
    azure: Azure, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """As where somebody deletes something in Azure between the two plans."""
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
