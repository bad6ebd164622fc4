"""The program that plans and applies: Terraform or OpenTofu."""

from pathlib import Path

import pytest
from endings import refused
from programs import executable

from fairway_core.findings import UserError
from fairway_core.terraform_program import lock_file, missing, program, registry
from fairway_stacks.plan.terraform import Terraform, require


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


@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [
        (0o755, "no program\n", "does not run: Exec format error"),
        (0o755, "#!/no/shell\n", "does not run: the interpreter in its first line is not there"),
        (0o644, "no program\n", "is not there, or not executable"),
    ],
)
def test_terraform_program_from_environment_variable_that_does_not_run_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, text: str, why: str
) -> None:
    (file := path / "terraform").write_text(text)
    file.chmod(mode)
    monkeypatch.setenv("FAIRWAY_TERRAFORM", str(file))

    def run() -> None:
        require()
        Terraform("lab", path, {}).outputs()

    finding = refused(run)
    assert finding.id == "no-terraform"
    assert f"`{file}` {why}" in finding.message
    assert finding.hint.startswith("set FAIRWAY_TERRAFORM")


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
