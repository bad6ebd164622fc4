"""What is said where Terraform gives no reason, and where a stack was not approved."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError, format_finding
from fairway_stacks.plan.approval import AGAIN, Approved
from fairway_stacks.plan.deploy import Person, _Deployment
from fairway_stacks.plan.loopback import loopback_azure
from fairway_stacks.plan.stacks import StackFolder
from fairway_stacks.plan.terraform import Terraform

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("printed", "reason"),
    [("panic: runtime error\nexit 11", "exit 11"), ("", "it said nothing")],
)
def test_a_terraform_without_a_reason_is_named_with_how_to_see_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, reason: str
) -> None:
    program = tmp_path / "terraform"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{printed}' >&2; exit 11\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    terraform = Terraform("lab-data", tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(UserError) as caught:
        terraform.validate()
    (finding,) = caught.value.findings
    assert finding.message == f"lab-data: terraform validate failed: {reason}"
    assert finding.hint == f"see all that it says: terraform -chdir={tmp_path} validate"


def test_error_of_several_lines_is_printed_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = "\nThe version is not available.\r\n\nPlease confirm \x1b[2J\u202e\n * a\n"
    found = {"severity": "error", "summary": summary, "address": "azurerm_x.kub", "detail": "Why."}
    text = json.dumps({"@level": "error", "diagnostic": found})
    program = tmp_path / "terraform"
    program.write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(text)}; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    terraform = Terraform("lab-data", tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(UserError) as caught:
        terraform.apply(tmp_path / "plan")
    (finding,) = caught.value.findings
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
def test_a_stack_that_was_not_approved_is_named(
    tmp_path: Path, approved: dict[str, Approved], why: str
) -> None:
    stack = StackFolder("lab-data", tmp_path, ())
    nobody: Any = None
    one = _Deployment([stack], nobody, tmp_path, Person(lambda _: None), None)
    with pytest.raises(UserError) as caught:
        one.run(approved)
    (finding,) = caught.value.findings
    assert finding.message == f"lab-data was not approved: {why}"
    assert finding.hint == AGAIN


def test_stand_in_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(UserError) as caught, loopback_azure():
        pass
    assert [(each.id, caught.value.exit_code) for each in caught.value.findings] == [
        ("no-stand-in", 5)
    ]
