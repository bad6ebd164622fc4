"""Plans of an environment: output, order of the stacks, and messages of failures."""

import json
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from environment_files import KEY
from programs import executable, finished

from fairway_core.findings import UserError, format_finding
from fairway_stacks.plan import planning as stack_plans
from fairway_stacks.plan.deploy import Person, _Deployment
from fairway_stacks.plan.planning import plan_folder
from fairway_stacks.plan.promised import loopback_azure
from fairway_stacks.plan.review import AGAIN, Approved
from fairway_stacks.plan.stacks import StackFolder, left_behind, ordered_stacks
from fairway_stacks.plan.terraform import Terraform, cache_variables, lock_folder, waits_for_inputs

Fairway = Callable[..., int]
StandIn = Any

GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/hub"
NETWORKS = f"{GROUP}/providers/Microsoft.Network/virtualNetworks"
SUBNET = f"{{compute: {{id: {NETWORKS}/v/subnets/compute, range: 10.0.0.0/24}}}}"
STORAGE = f"{GROUP}/providers/Microsoft.Storage/storageAccounts"
STACKS = ["demo-network", "demo-data", "demo-compute"]


def test_plan_offline_feeds_promised_outputs_to_later_stacks(
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
        # `init` downloads the provider, which then contacts only the stand-in.
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


@pytest.mark.parametrize(
    ("line", "section"),
    [
        (f"network: {{existing: {{subnets: {SUBNET}}}, private_endpoints: false}}", "network"),
        (f"storage: {{existing: {STORAGE}/a}}", "storage"),
        (f"resource_group: {{existing: {GROUP}}}", "resource_group"),
    ],
)
def test_plan_offline_refuses_existing_resources_before_terraform_runs(
    terraform: StandIn,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
    line: str,
    section: str,
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n"
        "clusters: {box: {engine: ssh, size: Standard_D4s_v6, nodes: 1}}\n"
        f"{line}\n"
    )
    assert fairway("plan", str(file), "--offline") == 2
    said = capfd.readouterr().err
    assert f"{file}:5:" in said
    assert f"`{section}.existing`" in said
    assert "[not-offline]" in said
    assert terraform.calls() == []


def test_plan_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with plan_folder(tmp_path), plan_folder(tmp_path / "new") as new:
        assert [each.stat().st_mode & 0o777 for each in (tmp_path, new)] == [0o755, 0o700]


def test_plan_live_changes_nothing_and_keeps_plans_private(
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
    quick.forget()
    assert fairway("review", "demo", "--json") == 0
    assert [call["stack"] for call in quick.calls() if call["command"] == "plan"] == STACKS
    assert "apply" not in {call["command"] for call in quick.calls()}
    assert json.loads(capfd.readouterr().out)["totals"]["create"] == 3
    # Plans contain secrets.
    assert kept.stat().st_mode & 0o077 == 0
    assert (kept / "demo-data.json").stat().st_mode & 0o077 == 0
    capfd.readouterr()
    # With the same plans as a base, all changes were already pending.
    assert fairway("plan", "demo", "--base", str(kept), "--json") == 0
    review = json.loads(capfd.readouterr().out)
    assert review["compared"]
    assert [len(each["in_base"]) for each in review["stacks"]] == [1, 1, 1]


def test_plan_of_a_new_environment_shows_all_stacks_before_deployment(
    quick: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    """A stack that waits is planned with the outputs promised by the plans of the others."""
    quick.fault(data_plan="no-inputs", compute_plan="without demo-data")
    kept = tmp_path / "plans"
    assert fairway("plan", "demo", "--out", str(kept)) == 0
    capfd.readouterr()
    # The review of the kept plans shows the same.
    assert fairway("review", *map(str, sorted(kept.glob("*.json"))), "--json") == 0
    found = {each["stack"]: each for each in json.loads(capfd.readouterr().out)["stacks"]}
    assert {name: (each["state"], each["promised"]) for name, each in found.items()} == {
        "demo-network": ("planned", False),
        "demo-data": ("waiting", True),
        "demo-compute": ("waiting", True),
    }
    assert found["demo-compute"]["waits_for"] == ["demo-data"]
    assert [len(each["changes"]) for each in found.values()] == [1, 1, 1]
    # Promised plans cannot be applied, and the stacks read their states again.
    assert [file.stem for file in kept.glob("*.tfplan")] == ["demo-network"]
    stack = json.loads((tmp_path / "out/stacks/demo-data/cdk.tf.json").read_text())
    assert "locals" not in stack
    assert list(stack["data"]["terraform_remote_state"])


def test_plan_exit_code_reports_loss_of_data(
    quick: StandIn,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fairway: Fairway,
) -> None:
    quick.fault(data_plan="prevented", data_action="delete")
    assert fairway("plan", "demo") == 3  # the exit code of `fairway review`
    said = "demo-data: Instance cannot be destroyed"
    assert said in capfd.readouterr().err
    # Terraform refuses the loss even if it is allowed.
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
def test_plan_reports_errors_of_terraform(
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
        assert errors.count("\n") == 2


def test_plan_without_terraform_synthesizes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fairway: Fairway,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    assert fairway("plan", "demo") == 4
    assert "install Terraform: https://" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_plan_of_unknown_environment_or_base_starts_no_terraform(
    terraform: StandIn, tmp_path: Path, capfd: pytest.CaptureFixture[str], fairway: Fairway
) -> None:
    assert fairway("plan", "dmo") == 2
    assert "did you mean `demo`?" in capfd.readouterr().err
    missing = tmp_path / "base.json"
    assert fairway("plan", "demo", "--base", str(missing)) == 2
    assert f"error: {missing}: no such file [no-such-file]" in capfd.readouterr().err
    assert terraform.calls() == []


def test_plan_reports_unwritable_report_or_summary(
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


def test_terraform_inits_sharing_a_cache_run_one_at_a_time(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "cache").mkdir()
    # The program fails if another one is running.
    busy = f"mkdir {tmp_path}/busy && sleep 0.2 && rmdir {tmp_path}/busy"
    executable(programs / "terraform", busy)
    cache = {"TF_PLUGIN_CACHE_DIR": str(tmp_path / "cache")}
    stacks = [Terraform(f"stack-{number}", tmp_path, cache) for number in range(4)]
    with ThreadPoolExecutor(len(stacks)) as pool:
        for done in [pool.submit(stack.init) for stack in stacks]:
            done.result()


def test_terraform_cached_provider_is_not_downloaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download would replace the program that a concurrent plan is running."""
    keeps = {"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"}
    monkeypatch.setenv("TF_PLUGIN_CACHE_DIR", "/cache")
    assert cache_variables() == keeps
    monkeypatch.delenv("TF_PLUGIN_CACHE_DIR")
    assert cache_variables().items() > keeps.items()


def test_plan_in_the_same_folder_waits_for_the_first(tmp_path: Path) -> None:
    waits, entered = threading.Event(), threading.Event()

    def second() -> None:
        with lock_folder(tmp_path / "out", waiting=waits.set):
            entered.set()

    with lock_folder(tmp_path / "out"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(300)
        assert not entered.is_set()
    assert entered.wait(300)
    thread.join()


def test_terraform_init_uses_the_committed_lock_read_only(
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
    """Writes a synthesized stack whose state is in `folder`, and the state if it has content."""
    here = folder / "cdktf.out/stacks" / stack
    here.mkdir(parents=True)
    name = f"terraform.{stack}.tfstate"
    kept = {"local": {"path": f"../../../{name}"}, "azurerm": {"key": f"{stack}.tfstate"}}
    document = {"terraform": {"backend": {backend: kept[backend]}}}
    (here / "cdk.tf.json").write_text(json.dumps(document))
    if content:
        (folder / name).write_text(json.dumps(content))
    return StackFolder(stack, here)


def test_plan_finds_state_left_by_a_renamed_environment(
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


def test_stacks_are_ordered_after_stacks_they_read(tmp_path: Path) -> None:
    stacks = {
        "c": {"workingDirectory": "stacks/c", "dependencies": ["a", "b"]},
        "b": {"workingDirectory": "stacks/b", "dependencies": ["a"]},
        "a": {"workingDirectory": "stacks/a", "dependencies": []},
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"stacks": stacks}))
    assert [each.name for each in ordered_stacks(tmp_path)] == ["a", "b", "c"]


def test_plan_waits_for_inputs_only_if_nothing_else_failed() -> None:
    def log(*summaries: str) -> str:
        found = [{"diagnostic": {"severity": "error", "summary": each}} for each in summaries]
        return "\n".join(["not JSON", *map(json.dumps, found)])

    assert waits_for_inputs(log("Unable to find remote state", "Unable to find remote state"))
    assert not waits_for_inputs(log("Unable to find remote state", "Invalid index"))
    assert not waits_for_inputs(log())


@pytest.mark.parametrize("program", ["plan", "deploy"])
def test_bin_scripts_print_usage_with_help(repository: Path, program: str) -> None:
    command = [repository / "bin" / program, "--help"]
    done = finished(command, check=True)
    assert f"Usage: fairway {program} " in done.stdout


@pytest.fixture
def failing(tmp_path: Path, programs: Path) -> Callable[..., Terraform]:
    """Returns a Terraform that prints a text and fails."""

    def failing(text: str, code: int, *, to: int) -> Terraform:
        executable(programs / "terraform", f"printf '%s' {shlex.quote(text)} >&{to}; exit {code}")
        return Terraform("lab-data", tmp_path, {"PATH": f"{programs}:/usr/bin:/bin"})

    return failing


@pytest.mark.parametrize(
    ("printed", "reason"), [("panic: runtime error\nexit 11", "exit 11"), ("", "it said nothing")]
)
def test_terraform_failure_without_reason_suggests_the_full_command(
    tmp_path: Path, failing: Callable[..., Terraform], printed: str, reason: str
) -> None:
    finding = refused(lambda: failing(printed, 11, to=2).validate())
    assert finding.message == f"lab-data: terraform validate failed: {reason}"
    assert finding.hint == f"see all that it says: terraform -chdir={tmp_path} validate"


def test_init_with_a_state_elsewhere_names_the_command_that_moves_it(
    tmp_path: Path, failing: Callable[..., Terraform]
) -> None:
    detail = 'If you wish to …, use "terraform init -reconfigure".'
    found = {"severity": "error", "summary": "Backend configuration changed", "detail": detail}
    text = json.dumps({"@level": "error", "diagnostic": found})
    finding = refused(lambda: failing(text, 1, to=1).init())
    commands = f"terraform -chdir={tmp_path} init -migrate-state", f"rm -r {tmp_path}/.terraform"
    assert all(each in finding.hint for each in commands)


def test_terraform_error_of_several_lines_is_printed_line_by_line(
    tmp_path: Path, failing: Callable[..., Terraform]
) -> None:
    summary = "\nThe version is not available.\r\n\nPlease confirm \x1b[2J\u202e\n * a\n"
    found = {"severity": "error", "summary": summary, "address": "azurerm_x.kub", "detail": "Why."}
    text = json.dumps({"@level": "error", "diagnostic": found})
    finding = refused(lambda: failing(text, 1, to=1).apply(tmp_path / "plan"))
    assert format_finding(finding).splitlines() == [
        "error: lab-data: azurerm_x.kub: The version is not available. [terraform-apply]",
        "  Please confirm \ufffd[2J\ufffd",
        "   * a",
        "  Why.",
    ]


@pytest.mark.parametrize(
    ("approved", "why"),
    [
        ({}, "it is not in the review"),
        ({"lab-data": Approved("failed", "")}, "its plan had failed"),
    ],
)
def test_deploy_names_a_stack_that_was_not_approved(
    tmp_path: Path, approved: dict[str, Approved], why: str
) -> None:
    stack = StackFolder("lab-data", tmp_path, ())
    nobody: Any = None
    one = _Deployment([stack], nobody, tmp_path, Person(lambda _: None), None)
    finding = refused(lambda: one.run(approved))
    assert finding.message == f"lab-data was not approved: {why}"
    assert finding.hint == AGAIN


def test_plan_offline_reports_azure_stand_in_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(UserError) as caught, loopback_azure():
        pass
    assert [(each.id, caught.value.exit_code) for each in caught.value.findings] == [
        ("no-stand-in", 5)
    ]
