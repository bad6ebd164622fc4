"""`fairway lock`, with Terraform itself and a folder in place of the registry."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import finished

from fairway_core.findings import UserError
from fairway_stacks.plan.provider_lock import check_lock, write_lock

needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)
TWO = ("linux_amd64", "darwin_arm64")
LOCK, ADDRESS = "terraform.lock.hcl", "registry.terraform.io/hashicorp/azurerm"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "cdktf.json").write_text("{}")
    monkeypatch.chdir(folder)
    return folder


def _mirror(folder: Path, *versions: str) -> Path:
    """Makes a folder as `terraform providers mirror` does, with providers that do nothing."""
    stack = folder / "stack"
    stack.mkdir()
    (stack / "a.tf").write_text(
        'terraform {\n required_providers {\n azurerm = { source = "hashicorp/azurerm" }\n }\n}\n'
    )
    listed = finished(["terraform", f"-chdir={stack}", "providers", "-no-color"], check=True).stdout
    source = listed.partition("provider[")[2].partition("]")[0]
    packages = folder / "mirror" / source
    packages.mkdir(parents=True)
    for version in versions:
        for platform in TWO:
            file = packages / f"terraform-provider-azurerm_{version}_{platform}.zip"
            with zipfile.ZipFile(file, "w") as package:
                package.writestr(f"terraform-provider-azurerm_v{version}_x5", platform + version)
    return folder / "mirror"


def _lock(address: str) -> str:
    return f'provider "{address}" {{\n  version = "5.2.0"\n  hashes = [\n    "h1:a=",\n  ]\n}}\n'


@needs_terraform
def test_lock_contains_hashes_of_each_platform(project: Path, tmp_path: Path) -> None:
    mirror = _mirror(tmp_path, "5.1.0", "5.2.0", "6.0.0")
    assert write_lock(TWO, mirror, upgrade=False) == project / LOCK
    text = (project / LOCK).read_text()
    assert 'version     = "5.2.0"' in text
    assert text.count('"h1:') == 2
    assert check_lock() == project / LOCK


@needs_terraform
def test_lock_keeps_version_until_upgrade(project: Path, tmp_path: Path) -> None:
    mirror = _mirror(tmp_path, "5.2.0")
    write_lock(TWO, mirror, upgrade=False)
    before = (project / LOCK).read_text()
    newer = tmp_path / "newer"
    newer.mkdir()
    both = _mirror(newer, "5.2.0", "5.3.0")
    write_lock(TWO[:1], both, upgrade=False)
    assert (project / LOCK).read_text() == before
    write_lock(TWO, both, upgrade=True)
    assert 'version     = "5.3.0"' in (project / LOCK).read_text()


@needs_terraform
def test_lock_of_unavailable_platform_is_refused_and_writes_nothing(
    project: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        write_lock((*TWO, "plan9_mips"), _mirror(tmp_path, "5.2.0"), upgrade=False)
    assert caught.value.exit_code == 4
    said = str(caught.value)
    assert "Terraform cannot lock its provider: " in said
    assert "5.2.0 is not available for plan9_mips" in said
    assert list(project.iterdir()) == [project / "cdktf.json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is not there: any provider that a state names could run"),
        ("", f"has no hashes of {ADDRESS}"),
        (f'provider "{ADDRESS}" {{\n  version = "5.2.0"\n}}\n', "has no hashes of"),
        (_lock("hashicorp/azurerm"), "has no hashes of"),
        (_lock("registry.example.com/hashicorp/azurerm"), "has no hashes of"),
        (_lock(f"{ADDRESS}x"), "has no hashes of"),
        (
            _lock(ADDRESS) + _lock("registry.example.com/hashicorp/azurerm"),
            "also locks registry.example.com/hashicorp/azurerm, which a state could name",
        ),
        (_lock(ADDRESS) + 'provider  "evil/azurerm" { }\n', "also locks evil/azurerm"),
        ('provider "a/other/azurerm" {\n  hashes = [\n    "h1:a=",\n  ]\n}\n', "has no hashes of"),
        (
            (
                f'provider "{ADDRESS}" {{\n}}\n'
                'provider "x" {\n  hashes = [\n    "h1:a=",\n  ]\n}\n'
            ),
            "has no hashes of",
        ),
    ],
)
def test_lock_check_refuses_missing_or_foreign_hashes(
    project: Path,
    text: str | None,
    said: str,
    capfd: pytest.CaptureFixture[str],
    fairway: Callable[..., int],
) -> None:
    if text is not None:
        (project / LOCK).write_text(text)
    assert fairway("lock", "--check") == 2
    error = capfd.readouterr().err
    assert f"terraform.lock.hcl {said}" in error
    assert "fairway lock && git add terraform.lock.hcl" in error


def test_lock_check_accepts_the_providers_own_address(
    project: Path, capfd: pytest.CaptureFixture[str], fairway: Callable[..., int]
) -> None:
    # A company's own provider does not impersonate azurerm.
    (project / LOCK).write_text(_lock(ADDRESS) + _lock("registry.example.com/lab/quota"))
    assert fairway("lock", "--check") == 0
    assert capfd.readouterr().out == f"{project / LOCK}\n"


def test_lock_requires_a_project_and_a_valid_platform(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fairway: Callable[..., int],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fairway("lock", "--check") == 2
    assert "no project is here: no cdktf.json in this folder or above it" in capfd.readouterr().err
    assert fairway("lock", "--platform", "../x") == 2
    assert "`../x` is not a platform of Terraform" in capfd.readouterr().err


def test_lock_of_opentofu_uses_its_own_registry(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_TERRAFORM", "tofu")
    with pytest.raises(UserError, match=r"tofu\.lock\.hcl is not there"):
        check_lock()
    lock = project / "tofu.lock.hcl"
    lock.write_text(_lock(ADDRESS))
    with pytest.raises(UserError, match=r"no hashes of registry\.opentofu\.org/hashicorp/azurerm"):
        check_lock()
    lock.write_text(_lock("registry.opentofu.org/hashicorp/azurerm"))
    assert check_lock() == lock
