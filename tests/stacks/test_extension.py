"""Users' additions: their own resources, and existing ones that Terraform takes over."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pages
import pytest
from endings import refused
from environment_files import KEY

from fairway_core.findings import UserError, format_finding
from fairway_stacks.app import write_stacks
from fairway_stacks.own_bindings import write_bindings

SCHEMA = Path(__file__).with_name("container_apps.schema.json")
Written = Callable[[str], dict[str, Any]]

ENVIRONMENT = f"""\
name: lab
location: westeurope
tags: {{owner: me}}
access: {{ssh_keys: ["{KEY}"]}}
clusters: {{box: {{engine: ssh, size: Standard_HB120rs_v3, nodes: 1}}}}
"""
EXTENSION = """\
from __future__ import annotations
from dataclasses import dataclass
import fairway_constructs as az
from names_of_the_lab import NAME
@dataclass
class Lab:
    name: str
class Apps(az.Resource):
    TYPE = "azurerm_container_app_environment"
def extend(*, network, data, compute):
    apps = Apps(compute, "apps", {"name": NAME, **compute.azure.common})
    az.Output(data, "subnet", value=network.network.subnets["compute"].id)
    az.Output(compute, "apps_id", value=apps.reference("id"))
"""


def _written(folder: Path) -> dict[str, Any]:
    """Returns the stacks of the environment in the folder, by role."""
    written = write_stacks(folder / "lab.yaml", folder / "cdktf.out", warn=lambda _: None)
    return {
        stack.name.rpartition("-")[2]: json.loads((stack.folder / "cdk.tf.json").read_text())
        for stack in written
    }


@pytest.fixture
def extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Writes the stacks of a project with this extension and returns them by role."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cdktf.json").write_text("{}")
    (tmp_path / "fairway.yaml").write_text("extend: lab_stacks.py\n")
    (tmp_path / "lab.yaml").write_text(ENVIRONMENT)
    (tmp_path / "names_of_the_lab.py").write_text('NAME = "lab-cae"\n')

    def extended(text: str) -> dict[str, Any]:
        (tmp_path / "lab_stacks.py").write_text(text)
        return _written(tmp_path)

    return extended


def test_extension_adds_resources_and_outputs_to_the_stacks(
    extended: Callable[[str], dict[str, Any]],
) -> None:
    stacks = extended(EXTENSION)
    (apps,) = stacks["compute"]["resource"]["azurerm_container_app_environment"].values()
    assert apps["name"] == "lab-cae"
    assert apps["tags"]["environment"] == "lab"
    assert stacks["compute"]["output"]["apps_id"]["value"] == (
        "${azurerm_container_app_environment.apps.id}"
    )
    assert "lab-network.outputs" in stacks["data"]["output"]["subnet"]["value"]
    assert "lab_stacks" not in json.dumps(stacks)


SECOND = """import fairway_constructs as az
def extend(network, data, compute):
    second = az.Construct(network, "second")
    az.use_resource_group(second, environment="lab-second", location="westeurope")
    az.Network(second, "net", address_space="10.77.0.0/16", private_endpoints=False)
    az.Storage(data, "more", containers=["abc"], network=network.network, account="labmore")
    cluster = az.Cluster(
        compute, "extra", size="Standard_HB120rs_v3", nodes=1, network=network.network
    )
    compute.add_target(cluster)
"""


def test_extension_adds_constructs_of_kinds_that_the_environment_has(
    extended: Callable[[str], dict[str, Any]],
) -> None:
    before, after = extended("def extend(network, data, compute): ...\n"), extended(SECOND)
    for role, stack in before.items():
        for kind, own in stack["resource"].items():
            assert own.items() <= after[role]["resource"][kind].items(), "nothing else changes"
    assert len(after["network"]["resource"]["azurerm_virtual_network"]) == 2
    old, new = (each["compute"]["output"]["targets"]["value"] for each in (before, after))
    assert [each["name"] for each in new] == ["box", "extra"]
    assert new[0] == old[0]
    assert new[1]["ssh"]["host"].startswith("${azurerm_network_interface.")


@pytest.mark.parametrize(("command", "done"), [("cost", "counted"), ("diagram", "drawn")])
def test_extension_is_said_to_be_left_out_where_only_the_file_is_read(
    extended: Callable[[str], dict[str, Any]],
    fairway: Callable[..., int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    command: str,
    done: str,
) -> None:
    extended(SECOND)
    options = ["--offline"] if command == "cost" else []
    assert fairway(command, "lab.yaml", *options) == 0
    assert f"lab_stacks.py: what `extend` adds is not {done} here" in capfd.readouterr().err
    (tmp_path / "fairway.yaml").write_text("environment: lab\n")
    assert fairway(command, "lab.yaml", *options) == 0
    assert "extend" not in capfd.readouterr().err


def test_extension_cannot_add_two_targets_of_one_name(
    extended: Callable[[str], dict[str, Any]],
) -> None:
    twice = "    compute.add_target(cluster)\n"
    finding = refused(lambda: extended(SECOND + twice), "two targets are called `extra`")
    assert finding.location is not None
    assert finding.location.line == SECOND.count("\n") + 1


def test_extension_of_generated_classes_keeps_their_blocks_in_hcl(
    extended: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    write_bindings(["azurerm_container_app_environment"], tmp_path / "own", SCHEMA)
    extended(
        "from own.container_app_environment import ContainerAppEnvironment, WorkloadProfile\n"
        "def extend(network, data, compute):\n"
        "    gpu = WorkloadProfile(name='gpu', workload_profile_type='NC24-A100')\n"
        "    ContainerAppEnvironment(\n"
        "        compute, 'a', name='x', **compute.azure.common, workload_profile=[gpu]\n"
        "    )\n"
    )
    write_stacks(tmp_path / "lab.yaml", tmp_path / "hcl", warn=lambda _: None, hcl=True)
    text = (tmp_path / "hcl/stacks/lab-compute/cdk.tf").read_text()
    assert "\n  workload_profile {\n" in text


def test_extension_is_not_applied_to_the_state_stack(
    extended: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    state = "state: {backend: azurerm, resource_group: tf, storage_account: labtf"
    (tmp_path / "lab.yaml").write_text(f"{ENVIRONMENT}{state}, public_access: true}}\n")
    (tmp_path / "lab_stacks.py").write_text("raise ValueError\n")
    (made,) = write_stacks(tmp_path / "lab.yaml", tmp_path / "out", warn=lambda _: None, state=True)
    assert made.name == "lab-state"


def test_extension_messages_of_mistakes_equal_golden_page(
    extended: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    def answer(text: str) -> tuple[int, str]:
        with pytest.raises(UserError) as caught:
            extended(f"{text}\n")
        assert not list(tmp_path.glob("cdktf.out/stacks/*/cdk.tf.json"))
        said = "\n".join(map(format_finding, caught.value.findings))
        return caught.value.exit_code, said.replace(str(tmp_path), ".")

    pages.hold("extensions", answer)


def test_extension_that_is_missing_is_reported_at_its_line_of_the_project(
    extended: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "fairway.yaml").write_text("environment: lab\nextend: lab_stack.py\n")
    finding = refused(lambda: extended(EXTENSION), r"lab_stack\.py: no such file")
    assert finding.location is not None
    assert (finding.location.line, finding.location.column) == (2, 9)


def test_extension_with_broken_project_file_stops_synthesis(
    extended: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "fairway.yaml").write_text("environmant: lab\n")
    with pytest.raises(UserError, match="did you mean `environment`"):
        extended(EXTENSION)


VNET = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lab-rg-network/providers"
    "/Microsoft.Network/virtualNetworks/lab-vnet"
)
GROUP = VNET.partition("/providers")[0]


@pytest.fixture
def stacks(tmp_path: Path) -> Written:
    """Writes the stacks of an environment with more lines at its end and returns them by role."""

    def write(lines: str) -> dict[str, Any]:
        (tmp_path / "lab.yaml").write_text(f"{ENVIRONMENT}{lines}\n")
        return _written(tmp_path)

    return write


COMPUTE = "azurerm_subnet.compute"
RESOURCES, NETWORK = "azurerm_resource_group.group", "azurerm_virtual_network.vnet"


def test_imports_and_moves_are_written_to_the_stack_of_the_resource(stacks: Written) -> None:
    found = stacks(
        f"imports: {{azurerm_virtual_network.vnet: {VNET}}}\n"
        "moved: {azurerm_storage_account.old: azurerm_storage_account.storage}"
    )
    assert found["network"]["import"] == [{"to": "azurerm_virtual_network.vnet", "id": VNET}]
    assert found["data"]["moved"] == [
        {"from": "azurerm_storage_account.old", "to": "azurerm_storage_account.storage"}
    ]
    assert "import" not in found["data"]
    assert "moved" not in found["compute"]


@pytest.mark.parametrize(
    ("line", "rule", "at", "hint"),
    [
        (
            f"imports: {{azurerm_virtual_network.vnt: {VNET}}}",
            "unknown-address",
            "azurerm_virtual_network.vnt",
            "`azurerm_virtual_network.vnet`",
        ),
        (
            "moved: {azurerm_virtual_network.vnet: azurerm_virtual_network.other}",
            "unknown-address",
            "azurerm_virtual_network.other",
            "",
        ),
        (
            f"imports: {{azurerm_resource_group.group: {GROUP}}}",
            "unclear-address",
            "azurerm_resource_group.group",
            "network/azurerm_resource_group.group or data/azurerm_resource_group.group",
        ),
        (
            "moved: {data/azurerm_virtual_network.old: azurerm_virtual_network.vnet}",
            "other-stack",
            "azurerm_virtual_network.vnet",
            "terraform state mv",
        ),
        (
            "moved: {azurerm_subnet.old: azurerm_virtual_network.vnet}",
            "bad-move",
            "azurerm_subnet.old",
            "of its own type",
        ),
        (
            "moved: {azurerm_virtual_network.vnet: azurerm_virtual_network.vnet}",
            "bad-move",
            "azurerm_virtual_network.vnet",
            "fairway synth",
        ),
        (
            f"moved: {{azurerm_subnet.a: {COMPUTE}, azurerm_subnet.b: {COMPUTE}}}",
            "bad-move",
            "azurerm_subnet.b",
            "keep one",
        ),
        (
            f"imports: {{network/{RESOURCES}: {GROUP}, data/{RESOURCES}: {GROUP[:-4]}WORK}}",
            "bad-import",
            f"data/{RESOURCES}",
            "keep one",
        ),
        (
            f"imports: {{{NETWORK}: {VNET}, network/{NETWORK}: {VNET}2}}",
            "bad-import",
            f"network/{NETWORK}",
            "keep one",
        ),
        ("imports: {azurerm_virtual_network.vnet: '${evil}'}", "bad-value", "'${evil}'", ""),
        (f"imports: {{vnet: {VNET}}}", "bad-value", "vnet", ""),
    ],
)
def test_imports_and_moves_with_invalid_address_are_refused_at_its_position(
    stacks: Written, line: str, rule: str, at: str, hint: str
) -> None:
    with pytest.raises(UserError) as caught:
        stacks(line)
    finding = caught.value.findings[0]
    assert finding.id == rule
    place = finding.location
    assert place.text[place.column - 1 :][: place.length] == at
    assert hint in finding.hint
