"""The program that plans and applies: Terraform or OpenTofu."""

from pathlib import Path

import pytest
from programs import executable

from fairway_core.findings import UserError
from fairway_core.terraform_program import lock_file, missing, program, registry
from fairway_stacks.plan.terraform import Terraform


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("FAIRWAY_TERRAFORM", raising=False)
    return folder


def _install(file: Path, says: str = "{}") -> None:
    executable(file, f"echo '{says}'")


def test_terraform_program_prefers_terraform_to_tofu(path: Path) -> None:
    assert program() == "terraform"
    _install(path / "tofu")
    assert (program(), registry()) == ("tofu", "registry.opentofu.org")
    _install(path / "terraform")
    assert (program(), registry()) == ("terraform", "registry.terraform.io")
    assert lock_file() == "terraform.lock.hcl"


def test_terraform_program_from_environment_variable_is_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(path / "terraform", "no JSON")
    _install(tmp_path / "tofu", '{"who": {"value": "tofu"}}')
    monkeypatch.setenv("FAIRWAY_TERRAFORM", str(tmp_path / "tofu"))
    assert Terraform("lab", tmp_path, {}).outputs() == {"who": "tofu"}


@pytest.mark.usefixtures("path")
def test_terraform_program_that_is_missing_or_unknown_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "tofu")
    (finding,) = missing().findings
    assert finding.message.startswith("OpenTofu is not on PATH")
    assert "opentofu.org" in finding.hint
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "terragrunt")
    with pytest.raises(UserError, match="FAIRWAY_TERRAFORM is `terragrunt`"):
        program()
