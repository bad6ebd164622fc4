"""`fairway plan` and `fairway deploy`: the order of things, with a stand-in for Terraform.

What the real provider makes of it is not seen here, as it cannot be downloaded everywhere;
see the tests of the stand-in for Azure, which replay what it asked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError
from fairway_stacks.plan import deploy
from fairway_stacks.plan import planning as stack_plans
from fairway_stacks.plan.approval import Approved, in_deploy_order, read_approved
from fairway_stacks.plan.left import left_behind
from fairway_stacks.plan.locks import alone_in
from fairway_stacks.plan.stacks import StackFolder, in_order, synthesize
from fairway_stacks.plan.terraform import Terraform, cache_variables, waits_for_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_core.review.review import Review

    Fairway = Callable[..., int]

STACKS = ["demo-network", "demo-data", "demo-compute"]


@dataclass
class StandIn:
    """The folder of the stand-in for Terraform."""

    folder: Path

    def fault(self, **faults: str) -> None:
        """What goes wrong, as network_plan="broken"."""
        named = {f"demo-{key.replace('_', ' ')}": fault for key, fault in faults.items()}
        (self.folder / "faults.json").write_text(json.dumps(named))

    def calls(self) -> list[dict[str, Any]]:
        """What was called."""
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget(self) -> None:
        """Begins again."""
        (self.folder / "calls.jsonl").unlink()


@pytest.fixture
def terraform(as_terraform: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A program `terraform` on PATH, and a place of its own for all that is written."""
    folder = as_terraform("terraform_stand_in.py")
    monkeypatch.setenv("TERRAFORM_STAND_IN", str(folder))
    monkeypatch.setenv("ARM_CLIENT_ID", "my-own")
    return StandIn(folder)


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stacks of the demo, written once."""
    outdir = tmp_path_factory.mktemp("synthesized") / "cdktf.out"
    synthesize("demo", outdir)
    return outdir


@pytest.fixture
def quick(terraform: StandIn, synthesized: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The same, where the stacks are written already."""

    def copied(environment: str, outdir: Path) -> list[StackFolder]:
        assert environment == "demo"
        shutil.copytree(synthesized, outdir, dirs_exist_ok=True)
        return in_order(outdir)

    monkeypatch.setattr(stack_plans, "synthesize", copied)
    monkeypatch.setattr(deploy, "synthesize", copied)
    return terraform


def test_offline_each_stack_reads_what_the_plans_before_it_promise(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    assert fairway("plan", "demo", "--offline", "--report", str(tmp_path / "report")) == 0
    calls = quick.calls()
    steps = ["init", "validate", "plan", "show"]
    assert [(call["stack"], call["command"]) for call in calls] == [
        (stack, step) for stack in STACKS for step in steps
    ], "nothing is applied"
    states = {call["backend"]["local"]["path"] for call in calls}
    assert [Path(state).name for state in sorted(states)] == sorted(f"{s}.tfstate" for s in STACKS)
    assert all(not Path(state).parent.exists() for state in states)
    for call in calls:
        read = {name.removeprefix("outputs-of-") for name in call["promised"]}
        assert read == set(STACKS[: STACKS.index(call["stack"])])
        assert call["inputs"] == {}, "no state is read"
        # The provider comes from its registry, and then meets nobody but the stand-in.
        assert bool(call["host"]) == (call["command"] != "init")
        assert call["client"] in ("", "0" * 8 + "-0000-0000-0000-" + "0" * 12)
    assert not (tmp_path / "out").exists()
    printed = capfd.readouterr()
    assert all(f"azurerm_managed_disk.{stack}" in printed.out for stack in STACKS)
    review = json.loads((tmp_path / "report/review.json").read_text())
    assert [(each["stack"], each["state"]) for each in review["stacks"]] == [
        (stack, "planned") for stack in STACKS
    ]
    created = [each["changes"][0]["created"] for each in review["stacks"]]
    assert [each.get("zones") for each in created] == [None, {"unknown": True}, {"unknown": True}]
    assert "demo-data" in (tmp_path / "report/review.md").read_text()


def test_offline_a_key_of_ones_own_is_taken_too(
    terraform: StandIn, tmp_path: Path, everything: str, fairway: Fairway
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(everything)
    assert fairway("plan", str(file), "--offline", "--report", str(tmp_path / "report")) == 0
    assert "apply" not in {call["command"] for call in terraform.calls()}


def test_a_live_plan_changes_nothing(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    kept = tmp_path / "plans"
    assert fairway("plan", "demo", "--out", str(kept), "--json") == 0
    calls = quick.calls()
    assert [call["stack"] for call in calls if call["command"] == "plan"] == STACKS
    assert "apply" not in {call["command"] for call in calls}
    assert {call["client"] for call in calls} == {"my-own"}
    assert all("-lock=false" in c["arguments"] for c in calls if c["command"] == "plan")
    assert json.loads(capfd.readouterr().out)["totals"]["create"] == 3
    # There are secrets in plans.
    assert kept.stat().st_mode & 0o077 == 0
    assert (kept / "demo-data.json").stat().st_mode & 0o077 == 0
    capfd.readouterr()
    # The same plans as a base: all of it was to be done before.
    assert fairway("plan", "demo", "--base", str(kept), "--json") == 0
    review = json.loads(capfd.readouterr().out)
    assert review["compared"]
    assert [len(each["pending"]) for each in review["stacks"]] == [1, 1, 1]


def test_a_stack_that_waits_is_shown_and_does_not_fail(
    quick: StandIn, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    quick.fault(compute_plan="no-inputs")
    assert fairway("plan", "demo", "--json") == 0
    states = {s["stack"]: s["state"] for s in json.loads(capfd.readouterr().out)["stacks"]}
    assert states == dict.fromkeys(STACKS, "planned") | {"demo-compute": "waiting"}


def test_all_of_a_new_environment_is_shown_before_anything_is_deployed(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """A stack that waits is planned with the outputs that the plans of the others promise."""
    quick.fault(data_plan="no-inputs", compute_plan="without demo-data")
    kept = tmp_path / "plans"
    assert fairway("plan", "demo", "--out", str(kept)) == 0
    capfd.readouterr()
    # As what was kept is reviewed again, too.
    assert fairway("review", *map(str, sorted(kept.glob("*.json"))), "--json") == 0
    found = {each["stack"]: each for each in json.loads(capfd.readouterr().out)["stacks"]}
    assert {name: (each["state"], each["promised"]) for name, each in found.items()} == {
        "demo-network": ("planned", False),
        "demo-data": ("waiting", True),
        "demo-compute": ("waiting", True),
    }
    assert found["demo-compute"]["waits_for"] == ["demo-data"]
    assert [len(each["changes"]) for each in found.values()] == [1, 1, 1]
    # What was only promised cannot be applied, and the stacks read their states again.
    assert [file.stem for file in kept.glob("*.tfplan")] == ["demo-network"]
    stack = json.loads((tmp_path / "out/stacks/demo-data/cdk.tf.json").read_text())
    assert "locals" not in stack
    assert list(stack["data"]["terraform_remote_state"])


def test_data_that_would_be_lost_sets_the_exit_code(
    quick: StandIn,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fairway: Fairway,
) -> None:
    quick.fault(data_plan="prevented", data_action="delete")
    assert fairway("plan", "demo") == 3  # as `fairway review` ends
    said = "demo-data: Instance cannot be destroyed"
    assert said in capfd.readouterr().err
    # Meant or not: Terraform refuses it.
    monkeypatch.setenv("FAIRWAY_ALLOW", "azurerm_managed_disk.demo-data")
    assert fairway("plan", "demo", "--json") == 5
    assert said in capfd.readouterr().err
    quick.fault(data_action="delete")
    assert fairway("plan", "demo", "--json") == 0
    monkeypatch.delenv("FAIRWAY_ALLOW")
    capfd.readouterr()
    assert fairway("plan", "demo", "--markdown") == 3
    assert "azurerm_managed_disk.demo-data" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ({"network_init": "no-provider"}, 4, "could not connect to it [no-provider]\n"),
        ({"data_validate": "refused"}, 2, "demo-data: Unsupported argument"),
        ({"data_plan": "broken"}, 5, "demo-data: Service unavailable [terraform-plan]"),
    ],
)
def test_what_terraform_says_is_told(
    quick: StandIn,
    capfd: pytest.CaptureFixture[str],
    fault: dict[str, str],
    code: int,
    said: str,
    fairway: Fairway,
) -> None:
    quick.fault(**fault)
    assert fairway("plan", "demo") == code
    printed = capfd.readouterr()
    assert said in printed.err
    assert "Traceback" not in printed.err
    if code == 4:  # one line
        errors = printed.err[printed.err.index("error:") :]
        assert errors.count("\n") == 1


def test_without_terraform_nothing_is_synthesized(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    assert fairway("plan", "demo") == 4
    assert "install it: https://" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_environment_that_is_none_starts_no_terraform(
    terraform: StandIn, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    assert fairway("plan", "dmo") == 2
    assert "did you mean `demo`?" in capfd.readouterr().err
    assert terraform.calls() == []


def test_a_base_that_is_missing_starts_no_terraform(
    terraform: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    missing = tmp_path / "base.json"
    assert fairway("plan", "demo", "--base", str(missing)) == 2
    assert f"error: {missing}: no such file [no-such-file]" in capfd.readouterr().err
    assert terraform.calls() == []


def test_a_report_that_cannot_be_written_is_told(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert fairway("plan", "demo", "--json", "--report", str(file)) == 2
    assert fairway("plan", "demo", "--json", "--summary", str(tmp_path / "none/x")) == 2
    said = capfd.readouterr().err
    assert f"error: {file}: File exists [cannot-write]" in said
    assert "none/x: No such file or directory" in said
    assert file.read_text() == "mine"
    # As on a laptop, where GITHUB_STEP_SUMMARY is not set.
    assert fairway("plan", "demo", "--json", "--summary", "") == 0


def test_inits_that_share_a_cache_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/terraform"
    program.parent.mkdir()
    (tmp_path / "cache").mkdir()
    # It fails where another one is there.
    program.write_text(f"#!/bin/sh\nmkdir {tmp_path}/busy && sleep 0.2 && rmdir {tmp_path}/busy\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    cache = {"TF_PLUGIN_CACHE_DIR": str(tmp_path / "cache")}
    stacks = [Terraform(f"stack-{number}", tmp_path, cache) for number in range(4)]
    with ThreadPoolExecutor(len(stacks)) as pool:
        for done in [pool.submit(stack.init) for stack in stacks]:
            done.result()


def test_a_cached_provider_is_not_downloaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download replaces the program that a plan beside this one runs."""
    keeps = {"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"}
    monkeypatch.setenv("TF_PLUGIN_CACHE_DIR", "/cache")
    assert cache_variables() == keeps
    monkeypatch.delenv("TF_PLUGIN_CACHE_DIR")
    assert cache_variables().items() > keeps.items()


def test_a_second_plan_in_the_same_folder_waits(tmp_path: Path) -> None:
    waits, entered = threading.Event(), threading.Event()

    def second() -> None:
        with alone_in(tmp_path / "out", waiting=waits.set):
            entered.set()

    with alone_in(tmp_path / "out"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        assert not entered.is_set()
    assert entered.wait(60)
    thread.join()


def test_the_committed_lock_holds_for_each_stack(
    terraform: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that names another provider must not make the deployment download and run it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdktf.json").write_text("{}")
    folder = tmp_path / "out/demo-data"
    folder.mkdir(parents=True)
    (folder / "cdk.tf.json").write_text('{"terraform": {"backend": {}}}')
    stack = StackFolder("demo-data", folder)
    stack_plans.live_terraform(stack).init()
    assert terraform.calls()[-1]["arguments"] == ["-no-color", "-input=false", "-json"]
    (tmp_path / "terraform.lock.hcl").write_text("locked")
    stack_plans.live_terraform(stack).init()
    assert "-lockfile=readonly" in terraform.calls()[-1]["arguments"]
    assert (folder / ".terraform.lock.hcl").read_text() == "locked"


def _state(folder: Path, stack: str, backend: str, **content: Any) -> StackFolder:
    """A synthesized stack whose state lies in `folder`, and that state where it has content."""
    here = folder / "cdktf.out/stacks" / stack
    here.mkdir(parents=True)
    name = f"terraform.{stack}.tfstate"
    kept = {"local": {"path": f"../../../{name}"}, "azurerm": {"key": f"{stack}.tfstate"}}
    document = {"terraform": {"backend": {backend: kept[backend]}}}
    (here / "cdk.tf.json").write_text(json.dumps(document))
    if content:
        (folder / name).write_text(json.dumps(content))
    return StackFolder(stack, here)


def test_an_environment_that_was_renamed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdktf.json").write_text("{}")
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments/lab.yaml").write_text("name: other\nlocation: eastus\n")
    for stack in ("mix-network", "mix-data", "other-data"):
        _state(tmp_path, stack, "local", resources=[{}])
    _state(tmp_path, "gone-data", "local", resources=[])
    new = [_state(tmp_path, f"mox-{role}", "local") for role in ("network", "data")]
    assert left_behind(new) == ["mix"]
    assert left_behind([StackFolder("mix-data", tmp_path / "cdktf.out/stacks/mix-data")]) == []
    assert left_behind([_state(tmp_path, "far-data", "azurerm")]) == []
    (tmp_path / "terraform.mox-network.tfstate").write_text('{"resources": [{}]}')
    assert left_behind(new) == []


def _approve(fairway: Fairway, folder: Path) -> Path:
    assert fairway("plan", "demo", "--json", "--report", str(folder)) == 0
    return folder / "review.json"


def test_what_was_approved_is_deployed(quick: StandIn, tmp_path: Path, fairway: Fairway) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.forget()
    outputs = tmp_path / "outputs.json"
    arguments = ["demo", "--approved", str(review), "--outputs-file", str(outputs)]
    assert fairway("deploy", *arguments) == 0
    done = [(c["stack"], c["command"]) for c in quick.calls()]
    assert [stack for stack, command in done if command == "apply"] == STACKS
    # Each is planned when those before it are there.
    assert done.index(("demo-data", "plan")) > done.index(("demo-network", "apply"))
    applied = [c["arguments"][-1] for c in quick.calls() if c["command"] == "apply"]
    planned = [c["arguments"][-1] for c in quick.calls() if c["command"] == "plan"]
    assert [f"-out={file}" for file in applied] == planned
    assert json.loads(outputs.read_text()) == {stack: {"targets": [stack]} for stack in STACKS}


def test_what_is_not_as_approved_is_not_deployed(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.fault(data_owner="somebody else")
    quick.forget()
    assert fairway("deploy", "demo", "--approved", str(review)) == 2
    assert [c["stack"] for c in quick.calls() if c["command"] == "apply"] == ["demo-network"]
    assert "demo-data: the plan is not the one that was approved" in capfd.readouterr().err


def _applied(terraform: StandIn) -> list[str]:
    return [call["stack"] for call in terraform.calls() if call["command"] == "apply"]


def test_a_stack_that_lacks_an_output_waits_and_the_plan_has_not_failed(
    quick: StandIn, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    quick.fault(data_plan="without demo-network")
    assert fairway("plan", "demo", "--json") == 0
    stacks = {each["stack"]: each for each in json.loads(capfd.readouterr().out)["stacks"]}
    data = stacks["demo-data"]
    assert (data["state"], data["waits_for"]) == ("waiting", ["demo-network"])
    assert len(data["changes"]) == 1, "what is known of it is shown"


@pytest.mark.parametrize("fault", ["no-inputs", "without demo-network"])
def test_a_stack_that_waited_is_not_deployed_unseen(
    quick: StandIn,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
    fault: str,
) -> None:
    """With --approved the deployment stops, and writes the review to be approved next."""
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


def test_a_new_environment_takes_two_approvals(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """The second is one of all that is left, as it will be but for values that are not known."""
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


def test_what_differs_from_what_was_promised_is_not_deployed(
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


def test_what_is_promised_is_not_approved_before_a_deployment_has_begun(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    quick.fault(compute_plan="without demo-data")
    review = _approve(fairway, tmp_path / "report")
    assert json.loads(review.read_text())["stacks"][2]["promised"]
    assert fairway("deploy", "demo", "--approved", str(review)) == 2
    assert _applied(quick) == STACKS[:2]


def test_on_a_terminal_what_waited_is_asked_for_once(quick: StandIn) -> None:
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


def test_what_is_not_approved_on_the_terminal_is_not_done(quick: StandIn) -> None:
    person = deploy.Person(lambda _: None, lambda _: False)
    with pytest.raises(UserError, match="not approved, and not done"):
        deploy.deploy("demo", None, person, allow=[])
    assert _applied(quick) == []


def test_nobody_to_ask_and_nothing_approved(
    quick: StandIn, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    assert fairway("deploy", "demo") == 2
    assert "--approved DIR/review.json" in capfd.readouterr().err
    assert quick.calls() == []


def test_what_goes_is_taken_away_from_compute_to_network(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    """Azure deletes no subnet in which something stands, and no disk that is attached."""
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
def test_the_order_follows_what_is_added_and_taken_away(
    network: Approved, data: Approved, order: str
) -> None:
    stacks = [
        StackFolder("network", Path()),
        StackFolder("data", Path(), ("network",)),
        StackFolder("compute", Path(), ("network", "data")),
    ]
    approved = {"network": network, "data": data, "compute": Approved("planned", "")}
    assert " ".join(each.name for each in in_deploy_order(stacks, approved)) == order


def test_data_is_lost_only_where_it_is_named(
    quick: StandIn, tmp_path: Path, fairway: Fairway
) -> None:
    quick.fault(data_action="delete")
    report = tmp_path / "report"
    assert fairway("plan", "demo", "--json", "--report", str(report)) == 3
    arguments = ["demo", "--approved", str(report / "review.json")]
    assert fairway("deploy", *arguments) == 3
    assert _applied(quick) == [], "it is in the review: nothing is begun"
    assert fairway("deploy", *arguments, "--allow", "azurerm_managed_disk.demo-data") == 0


def test_what_azure_would_refuse_is_not_begun(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    quick.fault(compute_action="shrink")
    assert fairway("plan", "demo", "--json", "--report", str(tmp_path)) == 2
    approved = ["--approved", str(tmp_path / "review.json")]
    assert fairway("deploy", "demo", *approved) == 2
    assert "demo-compute" not in _applied(quick)
    assert "Azure shrinks no disk" in capfd.readouterr().err


def test_outputs_that_cannot_be_written_are_told_before_anything_is_done(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    review = _approve(fairway, tmp_path / "report")
    quick.forget()
    outputs = tmp_path / "none/outputs.json"
    arguments = ["demo", "--approved", str(review), "--outputs-file", str(outputs)]
    assert fairway("deploy", *arguments) == 2
    assert "outputs.json: No such file or directory [cannot-write]" in capfd.readouterr().err
    assert quick.calls() == []


@pytest.mark.parametrize("text", [None, "{", "[]", '{"stacks": [{}]}'])
def test_an_approval_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "review.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_approved(file)
    assert "plan again" in caught.value.findings[0].hint


def test_stacks_come_after_what_they_read(tmp_path: Path) -> None:
    stacks = {
        "c": {"workingDirectory": "stacks/c", "dependencies": ["a", "b"]},
        "b": {"workingDirectory": "stacks/b", "dependencies": ["a"]},
        "a": {"workingDirectory": "stacks/a", "dependencies": []},
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"stacks": stacks}))
    assert [each.name for each in in_order(tmp_path)] == ["a", "b", "c"]


def test_a_plan_that_failed_for_more_than_its_inputs_has_failed() -> None:
    def log(*summaries: str) -> str:
        found = [{"diagnostic": {"severity": "error", "summary": each}} for each in summaries]
        return "\n".join(["no JSON", *map(json.dumps, found)])

    assert waits_for_inputs(log("Unable to find remote state", "Unable to find remote state"))
    assert not waits_for_inputs(log("Unable to find remote state", "Invalid index"))
    assert not waits_for_inputs(log())


@pytest.mark.parametrize("program", ["plan", "deploy"])
def test_the_scripts_explain_themselves(repository: Path, program: str) -> None:
    command = [repository / "bin" / program, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert f"Usage: fairway {program} " in done.stdout
