"""Deploying approved plans in order, and destroying an environment."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairway_cli.commands.plans import end_in_order
from fairway_core.findings import UserError
from fairway_core.review.review import Review
from fairway_stacks.plan import deploy
from fairway_stacks.plan import destroy as destroying
from fairway_stacks.plan.destroy import destroy
from fairway_stacks.plan.planning import StackPlan
from fairway_stacks.plan.review import Approved, in_deploy_order, read_approved
from fairway_stacks.plan.stacks import StackFolder, ordered_stacks
from fairway_stacks.plan.terraform import run_terraform

Fairway = Callable[..., int]
StandIn = Any

STACKS = ["demo-network", "demo-data", "demo-compute"]


def _approve(fairway: Fairway, folder: Path) -> Path:
    assert fairway("plan", "demo", "--json", "--report", str(folder)) == 0
    return folder / "review.json"


def test_deploy_applies_exactly_the_approved_plans(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.forget()
    outputs = tmp_path / "outputs.json"
    arguments = ["demo", "--approved", str(review), "--outputs-file", str(outputs)]
    assert fairway("deploy", *arguments) == 0
    done = [(c["stack"], c["command"]) for c in quick.calls()]
    assert [stack for stack, command in done if command == "apply"] == STACKS
    # Each stack is planned after those before it are applied.
    assert done.index(("demo-data", "plan")) > done.index(("demo-network", "apply"))
    applied = [c["arguments"][-1] for c in quick.calls() if c["command"] == "apply"]
    planned = [c["arguments"][-1] for c in quick.calls() if c["command"] == "plan"]
    assert [f"-out={file}" for file in applied] == planned
    assert json.loads(outputs.read_text()) == {stack: {"targets": [stack]} for stack in STACKS}


def test_deploy_checks_each_plan_before_it_is_applied(quick: StandIn, fairway: Fairway) -> None:
    """A plan that cannot succeed, for instance because a VM is stopped, is not started."""
    seen = []

    def before(plan: dict[str, Any]) -> None:
        seen.append([each["address"] for each in plan["resource_changes"]])
        if len(seen) == 2:
            raise UserError.of("stopped-machine", "`box` is stopped")

    person = deploy.Person(lambda _: None, lambda _: True, before)
    with pytest.raises(UserError, match="`box` is stopped"):
        deploy.deploy("demo", None, person, allow=[])
    assert _applied(quick) == ["demo-network"]
    assert all(seen)


def test_deploy_stops_at_a_plan_that_differs_from_the_approved_one(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.fault(data_owner="somebody else")
    outputs = tmp_path / "outputs.json"
    quick.forget()
    arguments = ["demo", "--approved", str(review), "--outputs-file", str(outputs)]
    assert fairway("deploy", *arguments) == 2
    assert [c["stack"] for c in quick.calls() if c["command"] == "apply"] == ["demo-network"]
    assert not outputs.exists()
    assert "demo-data: the plan is not the one that was approved" in capfd.readouterr().err


def _applied(terraform: StandIn) -> list[str]:
    return [call["stack"] for call in terraform.calls() if call["command"] == "apply"]


@pytest.mark.parametrize("fault", ["no-inputs", "without demo-network"])
def test_deploy_stops_before_a_stack_that_waited_during_review(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway, fault: str
) -> None:
    """With --approved the deployment stops, and writes the next review to approve."""
    quick.fault(data_plan=fault)
    review = _approve(fairway, tmp_path / "report")
    quick.fault()
    quick.forget()
    arguments = ["demo", "--approved", str(review)]
    assert fairway("deploy", *arguments) == 2
    assert _applied(quick) == ["demo-network"]
    assert "demo-data waited when the review was made" in capfd.readouterr().err
    following = tmp_path / "next"
    assert fairway("deploy", *arguments, "--report", str(following)) == 2
    assert f"fairway deploy --approved {following / 'review.json'}" in capfd.readouterr().err
    assert "demo-data" in (following / "review.md").read_text()
    quick.forget()
    assert fairway("deploy", "demo", "--approved", str(following / "review.json")) == 0
    assert _applied(quick) == STACKS[1:]


def test_deploy_of_new_environment_needs_two_approvals(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """The second approval covers all remaining stacks, complete except for unknown values."""
    quick.fault(data_plan="without demo-network", compute_plan="without demo-data")
    first, second = tmp_path / "first", tmp_path / "second"
    arguments = ["--approved", str(_approve(fairway, first)), "--report", str(second)]
    assert fairway("deploy", "demo", *arguments) == 2
    assert _applied(quick) == ["demo-network"]
    review = json.loads((second / "review.json").read_text())
    assert [each["state"] for each in review["stacks"]] == ["planned", "planned", "waiting"]
    assert review["stacks"][2]["changes"][0]["created"]["zones"] == {"unknown": True}
    assert fairway("deploy", "demo", "--approved", str(second / "review.json")) == 0
    assert _applied(quick) == STACKS


def test_deploy_stops_at_a_plan_that_differs_from_the_promised_one(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    faults = {"data_plan": "without demo-network", "compute_plan": "without demo-data"}
    quick.fault(**faults)
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    arguments = ["--approved", str(_approve(fairway, first)), "--report", str(second)]
    assert fairway("deploy", "demo", *arguments) == 2
    quick.fault(**faults, compute_owner="somebody else")
    arguments = ["--approved", str(second / "review.json"), "--report", str(third)]
    assert fairway("deploy", "demo", *arguments) == 2
    said = "would do something other than what was shown: azurerm_managed_disk.demo-compute"
    assert said in capfd.readouterr().err
    assert _applied(quick) == STACKS[:2]
    assert fairway("deploy", "demo", "--approved", str(third / "review.json")) == 0
    assert _applied(quick) == STACKS


def test_deploy_on_a_terminal_asks_once_for_stacks_that_waited(quick: StandIn) -> None:
    quick.fault(data_plan="without demo-network", compute_plan="without demo-data")
    shown: list[list[str]] = []
    asked: list[str] = []

    def ask(what: str) -> bool:
        asked.append(what)
        return True

    def show(found: Review) -> None:
        shown.append([each.state for each in found.stacks])

    deploy.deploy("demo", None, deploy.Person(show, ask), allow=[])
    assert shown == [["planned", "waiting", "waiting"], ["planned", "waiting"]]
    assert asked == ["apply the stacks that are planned here?", "apply demo-data and demo-compute?"]
    assert _applied(quick) == STACKS


def test_deploy_stops_at_a_stack_still_waiting_for_a_deployed_one(quick: StandIn) -> None:
    quick.fault(data_plan="no-inputs")
    with pytest.raises(UserError) as caught:
        deploy.deploy("demo", None, deploy.Person(lambda _: None, lambda _: True), allow=[])
    assert [each.id for each in caught.value.findings] == ["still-waiting"]
    assert _applied(quick) == ["demo-network"]


def test_deploy_declined_on_the_terminal_applies_nothing(quick: StandIn) -> None:
    person = deploy.Person(lambda _: None, lambda _: False)
    with pytest.raises(UserError, match="not approved, and not done"):
        deploy.deploy("demo", None, person, allow=[])
    assert _applied(quick) == []


def test_deploy_without_terminal_and_approval_is_refused(
    quick: StandIn, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    assert fairway("deploy", "demo") == 2
    assert "--approved DIR/review.json" in capfd.readouterr().err
    assert quick.calls() == []


def test_deploy_destroys_from_compute_to_network(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    """Azure deletes neither a subnet in use nor an attached disk."""
    quick.fault(**{f"{role}_action": "delete" for role in ("network", "data", "compute")})
    report = tmp_path / "report"
    allow = [word for stack in STACKS for word in ("--allow", f"azurerm_managed_disk.{stack}")]
    assert fairway("plan", "demo", "--json", "--report", str(report), *allow) == 0
    quick.forget()
    approved = ["--approved", str(report / "review.json")]
    assert fairway("deploy", "demo", *approved, *allow) == 0
    assert _applied(quick) == STACKS[::-1]


@pytest.mark.parametrize(
    ("network", "data", "order"),
    [
        (Approved("planned", ""), Approved("planned", ""), "network data compute"),
        (Approved("planned", "", removes=True), Approved("planned", ""), "data compute network"),
        (Approved("planned", ""), Approved("planned", "", removes=True), "network compute data"),
        (
            Approved("planned", "", removes=True, adds=True),
            Approved("planned", ""),
            "network data compute",
        ),
        (Approved("planned", "", removes=True), Approved("waiting", ""), "network data compute"),
    ],
)
def test_deploy_order_follows_additions_and_removals(
    network: Approved, data: Approved, order: str
) -> None:
    stacks = [
        StackFolder("network", Path()),
        StackFolder("data", Path(), ("network",)),
        StackFolder("compute", Path(), ("network", "data")),
    ]
    approved = {"network": network, "data": data, "compute": Approved("planned", "")}
    assert " ".join(each.name for each in in_deploy_order(stacks, approved)) == order


def test_deploy_loses_data_only_if_address_is_allowed(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    quick.fault(data_action="delete")
    report = tmp_path / "report"
    assert fairway("plan", "demo", "--json", "--report", str(report)) == 3
    arguments = ["demo", "--approved", str(report / "review.json")]
    assert fairway("deploy", *arguments) == 3
    assert _applied(quick) == [], "it is in the review: nothing is begun"
    assert fairway("deploy", *arguments, "--allow", "azurerm_managed_disk.demo-data") == 0


def test_deploy_does_not_begin_changes_that_azure_would_refuse(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    quick.fault(compute_action="shrink")
    assert fairway("plan", "demo", "--json", "--report", str(tmp_path)) == 2
    approved = ["--approved", str(tmp_path / "review.json")]
    assert fairway("deploy", "demo", *approved) == 2
    assert "demo-compute" not in _applied(quick)
    assert "Azure shrinks no disk" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--outputs-file", "none/outputs.json", "outputs.json: No such file or directory"),
        ("--report", "report/review.json", "review.json: File exists"),
    ],
)
def test_deploy_refuses_unwritable_files_before_any_change(
    quick: StandIn,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
    option: str,
    name: str,
    said: str,
) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.forget()
    arguments = ["demo", "--approved", str(review), option, str(tmp_path / name)]
    assert fairway("deploy", *arguments) == 2
    assert f"{said} [cannot-write]" in capfd.readouterr().err
    assert quick.calls() == []


def test_deploy_leaves_no_file_at_a_link_that_it_may_write_to(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path / "outputs.json")
    deploy._require_writable_file(link)
    assert list(tmp_path.iterdir()) == [link]


SAVES = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
os.close(os.open(sys.argv[1], os.O_WRONLY))
signal.sigwait({signal.SIGINT})
open(sys.argv[2], "w").close()
"""


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, SystemExit),
        (signal.SIGHUP, SystemExit),
    ],
)
def test_terraform_writes_its_state_when_the_program_is_to_end(
    tmp_path: Path, number: signal.Signals, raised: type[BaseException]
) -> None:
    ready, saved = tmp_path / "ready", tmp_path / "saved"
    os.mkfifo(ready)

    def interrupt() -> None:
        ready.open().close()
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    with end_in_order(), pytest.raises(raised):
        run_terraform([sys.executable, "-c", SAVES, str(ready), str(saved)], os.environ)
    assert saved.exists()


@pytest.mark.parametrize("text", [None, "{", "[]", '{"stacks": [{}]}'])
def test_deploy_refuses_an_invalid_approval(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "review.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_approved(file)
    assert "plan again" in caught.value.findings[0].hint


@pytest.fixture
def deployed(quick: StandIn, synthesized: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Returns an environment whose stacks are already written."""

    def written(_: str | None, __: Path, *, state: bool) -> list[StackFolder]:
        assert not state
        return ordered_stacks(synthesized)

    monkeypatch.setattr(destroying, "synthesize", written)
    return quick


DISKS = [f"azurerm_managed_disk.{stack}" for stack in STACKS]


def _destroy(*roles: str, agrees: bool = True, allow: Sequence[str] = DISKS) -> list[Review]:
    shown: list[Review] = []
    person = deploy.Person(shown.append, lambda _: agrees)
    destroy("demo", roles, None, person, allow=allow)
    return shown


def test_destroy_removes_stacks_in_reverse_order(deployed: StandIn) -> None:
    (review,) = _destroy()
    assert [each.stack for each in review.stacks] == ["demo-compute", "demo-data", "demo-network"]
    assert _applied(deployed) == ["demo-compute", "demo-data", "demo-network"]
    planned = [each["arguments"] for each in deployed.calls() if each["command"] == "plan"]
    assert all("-destroy" in each for each in planned)


@pytest.mark.parametrize(
    ("roles", "gone"), [(["compute"], ["demo-compute"]), (["data"], ["demo-compute", "demo-data"])]
)
def test_destroy_of_a_stack_includes_stacks_that_read_it(
    deployed: StandIn, roles: list[str], gone: list[str]
) -> None:
    _destroy(*roles)
    assert _applied(deployed) == gone


def test_destroy_removes_data_only_if_address_is_allowed(
    deployed: StandIn, fairway: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    for allow in ((), DISKS[1:], ["demo"]):
        with pytest.raises(UserError, match="data would be lost, and nothing was done") as caught:
            _destroy(allow=allow)
        assert caught.value.exit_code == 3
        assert "--allow ADDRESS" in caught.value.findings[0].hint
    assert fairway("destroy", "demo", "--stack", "compute") == 3
    assert f"--allow {DISKS[2]}" in capfd.readouterr().out
    assert _applied(deployed) == []


def test_destroy_removes_nothing_without_approval(deployed: StandIn) -> None:
    with pytest.raises(UserError, match="not approved, and nothing was done"):
        _destroy(agrees=False)
    assert _applied(deployed) == []
    with pytest.raises(UserError, match="there is no stack `computer`"):
        _destroy("computer")
    with pytest.raises(UserError, match="No such file") as caught:
        destroy("demo", (), Path("none.json"), deploy.Person(lambda _: None, None), allow=())
    assert "fairway destroy --report" in caught.value.findings[0].hint


def test_destroy_stops_at_protected_resources(deployed: StandIn) -> None:
    deployed.fault(data_plan="prevented")
    with pytest.raises(UserError, match="demo-data holds what is protected") as caught:
        _destroy()
    assert "protect: false" in caught.value.findings[0].hint
    assert _applied(deployed) == []


@pytest.mark.parametrize(
    ("waits", "changed", "id_"),
    [(True, (), "not-deployed"), (False, ("azurerm_management_lock.data",), "protected")],
)
def test_destroy_stops_at_an_undeployed_stack_or_a_lock(
    tmp_path: Path, waits: bool, changed: tuple[str, ...], id_: str
) -> None:
    plan = StackPlan("demo-data", tmp_path / "plan", tmp_path / "review", waits=waits)
    changes = tuple(SimpleNamespace(address=each) for each in changed)
    found: Any = SimpleNamespace(stacks=[SimpleNamespace(stack="demo-data", changes=changes)])
    with pytest.raises(UserError) as caught:
        destroying._stop_where_it_must([plan], found)
    assert caught.value.findings[0].id == id_


def test_destroy_applies_exactly_the_approved_review(
    deployed: StandIn, tmp_path: Path, fairway: Callable[..., int]
) -> None:
    report = tmp_path / "report"
    assert fairway("destroy", "demo", "--stack", "compute", "--report", str(report)) == 3
    assert _applied(deployed) == []
    review = report / "review.json"
    assert fairway("destroy", "demo", "--approved", str(review)) == 2, "more than was approved"
    arguments = ["demo", "--stack", "compute", "--approved", str(review)]
    assert fairway("destroy", *arguments) == 3, "an approval allows no loss"
    assert _applied(deployed) == []
    arguments += ["--allow", DISKS[2]]
    assert fairway("destroy", *arguments) == 0
    assert _applied(deployed) == ["demo-compute"]
    found = json.loads(review.read_text())
    found["stacks"][0]["digest"] = "another"
    review.write_text(json.dumps(found))
    assert fairway("destroy", *arguments) == 2
