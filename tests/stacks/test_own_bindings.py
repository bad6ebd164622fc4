"""`fairway bindings`: typed classes of a user's own, generated from the provider's schema."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import finished

from fairway_core.findings import UserError
from fairway_stacks.own_bindings import write_bindings

SCHEMA = Path(__file__).with_name("container_apps.schema.json")
APPS, HUB = "azurerm_container_app_environment", "data.azurerm_virtual_network"
IMPORTS = [
    "from lab_bindings.container_app_environment import ContainerAppEnvironment",
    "from lab_bindings.data_virtual_network import DataVirtualNetwork",
]
_PROGRAM = """\
import json
import fairway_constructs as az
from fairway_constructs.cdk import Lifecycle
from lab_bindings.container_app_environment import ContainerAppEnvironment, WorkloadProfile
from lab_bindings.data_virtual_network import DataVirtualNetwork

app = az.App(outdir="out")
lab = az.EnvironmentStack(app, "lab", location="westeurope", short_addresses=True)
hub = DataVirtualNetwork(lab, "hub", name="hub", resource_group_name="hub-rg")
gpu = WorkloadProfile(name="gpu", workload_profile_type="NC24-A100")
apps = ContainerAppEnvironment(
    lab, "apps", name="x", **lab.azure.common, workload_profile=[gpu],
    lifecycle=Lifecycle(prevent_destroy=True),
)
apps.node.add_dependency(hub)
domain: str = apps.default_domain
apps.zone_redundancy_enabled = True
az.Output(lab, "domain", value=domain)
app.synth()
"""
_WRONG = """\
ContainerAppEnvironment(lab, "b", **lab.azure.common)  # no name
WorkloadProfile(name="gpu", workload_profile_type=24)
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Returns the folder of a program with its bindings."""
    assert write_bindings([APPS, HUB], tmp_path / "lab_bindings", SCHEMA) == IMPORTS
    (tmp_path / "program.py").write_text(_PROGRAM)
    return tmp_path


def test_bindings_of_a_program_are_synthesized(written: Path) -> None:
    program = [sys.executable, "-W", "error", "program.py"]
    subprocess.run(program, cwd=written, check=True, timeout=300)
    document = json.loads((written / "out/stacks/lab/cdk.tf.json").read_text())
    (apps,) = document["resource"][APPS].values()
    del apps["//"], apps["tags"]
    assert apps == {
        "depends_on": ["data.azurerm_virtual_network.hub"],
        "lifecycle": {"prevent_destroy": True},
        "location": "westeurope",
        "name": "x",
        "resource_group_name": "${azurerm_resource_group.group.name}",
        "workload_profile": [{"name": "gpu", "workload_profile_type": "NC24-A100"}],
        "zone_redundancy_enabled": True,
    }
    assert document["data"]["azurerm_virtual_network"]["hub"]["name"] == "hub"
    assert document["output"]["domain"]["value"] == f"${{{APPS}.apps.default_domain}}"


@pytest.mark.nightly
def test_bindings_of_a_program_are_typed(written: Path, repository: Path) -> None:
    (written / "wrong.py").write_text(_PROGRAM + _WRONG)
    checked = finished(
        [sys.executable, "-m", "mypy", "--strict", "program.py", "wrong.py", "lab_bindings"],
        cwd=written,
        env={**os.environ, "MYPYPATH": str(repository / "constructs")},
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    line = len(_PROGRAM.splitlines())
    assert [each.split(":")[:2] for each in errors] == [
        ["wrong.py", str(line + 1)],
        ["wrong.py", str(line + 2)],
    ], checked.stdout


def test_bindings_are_added_and_rewritten(tmp_path: Path) -> None:
    package = tmp_path / "deep" / "lab_bindings"
    write_bindings([APPS], package, SCHEMA)
    (package / "__pycache__").mkdir()
    (package / "container_app_environment.py").write_text(
        f'"""Resource {APPS}; written by fairway bindings, never edited."""\n'
    )
    write_bindings([HUB], package, SCHEMA)
    assert "class" not in (package / "container_app_environment.py").read_text()
    write_bindings([APPS], package, SCHEMA)
    assert "class" in (package / "container_app_environment.py").read_text()
    assert (package / "data_virtual_network.py").is_file()


def test_bindings_use_the_schema_that_terraform_prints(
    tmp_path: Path, as_terraform: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terraform("schema_stand_in.py")
    monkeypatch.setenv("TERRAFORM_SCHEMA", str(SCHEMA))
    monkeypatch.chdir(tmp_path)
    assert write_bindings([APPS], tmp_path / "lab_bindings") == IMPORTS[:1]
    head = (tmp_path / "lab_bindings/container_app_environment.py").read_text()
    assert head.startswith(f'"""Resource {APPS} of hashicorp/azurerm 5.4.1; written by fairway')


def test_bindings_without_terraform_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="neither Terraform nor OpenTofu is on PATH") as caught:
        write_bindings([APPS], tmp_path / "lab_bindings")
    assert caught.value.exit_code == 4
    assert not (tmp_path / "lab_bindings").exists()


def test_bindings_of_unknown_type_leave_the_folder_unchanged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean `azurerm_container_app_environment`"):
        write_bindings([APPS + "s", HUB], tmp_path / "lab_bindings", SCHEMA)
    with pytest.raises(UserError, match=r"did you mean `data\.azurerm_client_config`"):
        write_bindings(["azurerm_client_config"], tmp_path / "lab_bindings", SCHEMA)
    assert not list(tmp_path.iterdir())
