"""The program that plans and applies: Terraform or OpenTofu."""

from collections.abc import Callable
from pathlib import Path

import pytest
from endings import refused
from programs import executable

from fairway_core.findings import UserError
from fairway_core.terraform_program import lock_file, missing, program, registry
from fairway_runner.targets.nodes import read_targets
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


_NO_REGISTRY = """{"diagnostic": {"severity": "error", "summary": "Failed to install provider"}}"""
_MOVED = """{"diagnostic": {"severity": "error", "summary": "Backend configuration changed"}}"""


@pytest.mark.parametrize(
    ("printed", "run", "said"),
    [
        ("", lambda tofu, _: tofu.lock_providers((), None), "OpenTofu cannot lock its provider"),
        (_NO_REGISTRY, lambda tofu, _: tofu.init(), "OpenTofu cannot download its provider here"),
        (_MOVED, lambda tofu, _: tofu.init(), "lab: OpenTofu last used another place"),
        ("", lambda tofu, _: tofu.outputs(), "lab: tofu output failed: Error: no"),
        ("", lambda _, out: read_targets(out), "OpenTofu has no outputs for"),
    ],
    ids=["lock", "download", "state", "failure", "outputs"],
)
def test_terraform_program_that_fails_is_called_by_its_own_name(
    path: Path,
    tmp_path: Path,
    printed: str,
    run: Callable[[Terraform, Path], None],
    said: str,
) -> None:
    executable(path / "tofu", f"echo '{printed}'; echo 'Error: no' >&2; exit 1")
    stack = tmp_path / "out/stacks/lab-compute"
    stack.mkdir(parents=True)
    (stack / "cdk.tf.json").write_text('{"output": {"targets": {}}}')
    finding = refused(lambda: run(Terraform("lab", stack, {}), tmp_path / "out"))
    assert said in finding.message
    shown = f"{finding.message}\n{finding.hint}".replace(str(tmp_path), "")
    assert "erraform" not in shown.replace(".terraform", "")  # a folder of either


@pytest.mark.usefixtures("path")
def test_terraform_program_that_is_missing_is_either_of_the_two() -> None:
    (finding,) = missing().findings
    assert "neither Terraform nor OpenTofu is on PATH" in finding.message
    assert "opentofu.org" in finding.hint
    assert "developer.hashicorp.com/terraform" in finding.hint


@pytest.mark.usefixtures("path")
def test_terraform_program_that_is_missing_or_unknown_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "tofu")
    (finding,) = missing().findings
    assert finding.message.startswith("OpenTofu is not on PATH")
    assert finding.hint == "install it: https://opentofu.org/docs/intro/install"
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "terragrunt")
    with pytest.raises(UserError, match="FAIRWAY_TERRAFORM is `terragrunt`"):
        program()
