"""HCL of environments: Terraform takes it, as it is laid out, and plans what it does of the JSON.

Terraform is the real one. In place of the provider, which is not at hand everywhere, a stand-in has
the provider's schema; what is planned is what the configuration says.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from tests.stacks.documents import Written

from fairway_constructs.azurerm import PROVIDER_SOURCE
from fairway_constructs.azurerm.provider import AzurermProvider, Features
from fairway_constructs.bindings.blocks import Block, ObjectValue
from fairway_constructs.bindings.facts import KEPT
from fairway_constructs.cdk import App, Resource, Stack
from fairway_constructs.hcl import to_hcl
from fairway_stacks.plan.promised import outputs_of, reading
from fairway_stacks.plan.stacks import StackFolder

Terraform = Callable[..., str]

HERE = Path(__file__).parent
ENVIRONMENTS = sorted((HERE.parents[1] / "stacks/environments").glob("*.yaml"))
PLANNED = ("planned_values", "resource_changes", "output_changes", "prior_state")

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="needs terraform")


@pytest.fixture(scope="module")
def terraform() -> Iterator[Terraform]:
    """Runs Terraform in a folder, with the stand-in for its provider; what it prints."""
    stand_in = [os.environ.get("JSII_NODE", "node"), str(HERE / "provider_stand_in.js"), str(KEPT)]
    with subprocess.Popen(
        stand_in, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = {"Network": "tcp", "String": f"127.0.0.1:{int(process.stdout.readline())}"}
        provider = {"Protocol": "grpc", "ProtocolVersion": 5, "Pid": process.pid, "Test": True}
        known = {f"registry.terraform.io/{PROVIDER_SOURCE}": {**provider, "Addr": address}}
        variables = {
            **{n: value for n, value in os.environ.items() if not n.startswith("TF_")},
            "TF_REATTACH_PROVIDERS": json.dumps(known),
            "CHECKPOINT_DISABLE": "1",
        }

        def run(folder: Path, *words: str) -> str:
            done = finished(["terraform", f"-chdir={folder}", *words], env=variables)
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
            return done.stdout

        yield run
        process.stdin.close()


def _require_valid(terraform: Terraform, folder: Path) -> None:
    assert terraform(folder, "fmt", "-check", "-diff") == ""
    terraform(folder, "init", "-backend=false", "-input=false")
    assert json.loads(terraform(folder, "validate", "-json"))["diagnostics"] == []


def _plan(terraform: Terraform, folder: Path) -> dict[str, Any]:
    terraform(folder, "init", "-input=false")
    terraform(folder, "plan", "-input=false", "-refresh=false", "-out=plan")
    plan: dict[str, Any] = json.loads(terraform(folder, "show", "-json", "plan"))
    return plan


def _plans(
    terraform: Terraform, folder: Path, document: dict[str, Any], promised: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan of a stack by its JSON, and that by its HCL, from an empty state."""
    document["terraform"]["backend"] = {"local": {"path": "empty.tfstate"}}
    json_folder, hcl_folder = folder / "json", folder / "hcl"
    for each in (json_folder, hcl_folder):
        each.mkdir(parents=True)
    file = json_folder / "cdk.tf.json"
    file.write_text(json.dumps(document))
    with reading(StackFolder(folder.name, json_folder), promised):
        (hcl_folder / "cdk.tf").write_text(to_hcl(json.loads(file.read_text())))
        return _plan(terraform, json_folder), _plan(terraform, hcl_folder)


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda file: file.stem)
def test_terraform_takes_the_hcl_of_each_environment(
    environment: Path, written: Written, terraform: Terraform, tmp_path: Path
) -> None:
    for role, document in written(environment).items():
        folder = tmp_path / "hcl" / role
        folder.mkdir(parents=True)
        (folder / "cdk.tf").write_text(to_hcl(document))
        _require_valid(terraform, folder)


@pytest.mark.parametrize("name", ["demo", "h100-slurm", "h100-kubernetes", "everything"])
def test_plan_of_the_hcl_is_that_of_the_json(
    name: str, everything: str, written: Written, terraform: Terraform, tmp_path: Path
) -> None:
    files = {file.stem: file for file in ENVIRONMENTS}
    promised: dict[str, Any] = {}
    for role, document in written(files.get(name, everything)).items():
        folder = tmp_path / "plans" / role
        of_json, of_hcl = _plans(terraform, folder, document, promised)
        assert {key: of_hcl.get(key) for key in PLANNED} == {
            key: of_json.get(key) for key in PLANNED
        }
        assert of_hcl["resource_changes"]
        stack = document["//"]["metadata"]["stackName"]
        promised[stack] = outputs_of(of_json)


# What no environment has, and what a text may hold.
ODD: dict[str, Any] = {
    "terraform": {"required_version": ">= 1.9", "backend": {"local": {"path": "x.tfstate"}}},
    "variable": {
        "who": {
            "type": "map(string)",
            "default": {"a b": "1"},
            "validation": [{"condition": "${length(var.who) > 0}", "error_message": "nobody"}],
        }
    },
    "locals": {"names": ["a", "b"], "for": {"for": 1, '${var.who["a b"]}': "$${x} %%{y}"}},
    "resource": {
        "terraform_data": {
            "one": {
                "for_each": "${toset(local.names)}",
                "input": {"text": 'tab\t"q" \\ ${each.key}\n', "none": None, "yes": True, "n": 1.5},
                "lifecycle": {
                    "ignore_changes": ["input"],
                    "replace_triggered_by": ["terraform_data.two"],
                    "precondition": [
                        {"condition": '${each.key != ""}', "error_message": "no ${each.key}"}
                    ],
                },
                "provisioner": [
                    {"local-exec": {"command": 'echo "${self.id}"', "when": "create"}},
                    {"local-exec": {"command": "true", "when": "destroy"}},
                ],
            },
            "two": {
                "input": "a\n  $${b}\n\n ${length(local.names)}\nEOT\n%%{c}",
                "triggers_replace": [
                    "  only\n   indented\n",
                    "one line\n",
                    "two\n\n",
                    "cr\r\nlf\n",
                ],
                "depends_on": ["terraform_data.three"],
                "lifecycle": {"ignore_changes": "all", "prevent_destroy": False},
            },
            "three": {"//": {"metadata": {"path": "s/a/three"}}, "input": "$$${x}"},
        }
    },
    "moved": [{"from": "terraform_data.four", "to": "terraform_data.three"}],
    "removed": {"from": "terraform_data.five", "lifecycle": {"destroy": False}},
    "output": {
        "all": {
            "value": "${terraform_data.two.input}",
            "description": 'What "two" has',
            "sensitive": True,
            "depends_on": ["terraform_data.one"],
        },
        "text": {"value": '${upper("x}")} and ${jsonencode({ a = "$${b}" })}'},
    },
}


def test_plan_of_everything_that_terraform_knows_is_that_of_the_json(
    terraform: Terraform, tmp_path: Path
) -> None:
    of_json, of_hcl = _plans(terraform, tmp_path / "odd", ODD, {})
    for key in (*PLANNED, "checks"):
        assert of_hcl.get(key) == of_json.get(key)
    _require_valid(terraform, tmp_path / "odd/hcl")
    root = of_hcl["configuration"]["root_module"]
    assert set(root["variables"]) == {"who"}
    [one, three, two] = root["resources"]
    assert [each["type"] for each in one["provisioners"]] == ["local-exec", "local-exec"]
    assert two["depends_on"] == ["terraform_data.three"]
    assert three["name"] == "three"


def test_modules_imports_and_dynamic_blocks_are_written() -> None:
    document = {
        "module": {"vm": {"source": "./vm", "providers": {"azurerm": "azurerm.other"}}},
        "import": [{"to": "azurerm_subnet.a", "id": "/subscriptions/x", "provider": "azurerm.b"}],
        "resource": {
            "azurerm_subnet": {
                "a": {
                    "name": "a",
                    "dynamic": {
                        "delegation": {
                            "for_each": "${local.all}",
                            "iterator": "each_one",
                            "content": {"name": "x", "service_delegation": {"name": "y"}},
                        }
                    },
                }
            }
        },
    }
    assert (
        to_hcl(document)
        == """\
resource "azurerm_subnet" "a" {
  name = "a"

  dynamic "delegation" {
    for_each = local.all
    iterator = each_one

    content {
      name = "x"

      service_delegation {
        name = "y"
      }
    }
  }
}

module "vm" {
  source = "./vm"
  providers = {
    azurerm = azurerm.other
  }
}

import {
  provider = azurerm.b
  to       = azurerm_subnet.a
  id       = "/subscriptions/x"
}
"""
    )


def test_cloud_init_can_be_read(written: Written) -> None:
    [slurm] = [file for file in ENVIRONMENTS if file.stem == "h100-slurm"]
    text = to_hcl(written(slurm)["compute"])
    assert "custom_data = base64encode(<<-EOT\n    #cloud-config\n" in text
    assert "base64decode" not in text


def test_text_whose_hash_a_resource_has_is_written_once(written: Written) -> None:
    [kubernetes] = [file for file in ENVIRONMENTS if file.stem == "h100-kubernetes"]
    text = to_hcl(written(kubernetes)["compute"])
    assert text.count("kind: NodeFeatureRule") == 1
    assert "md5(local.manifests-devices-source_content)" in text


def _synth(tmp_path: Path, *words: str, **variables: str) -> str:
    done = finished(
        [sys.executable, "-P", "-m", "fairway_cli.entry", "synth", "demo", *words],
        env={**os.environ, "CDKTF_OUTDIR": str(tmp_path / "out"), **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stack_is_written_in_one_language_at_a_time(tmp_path: Path) -> None:
    stack, manifest = tmp_path / "out/stacks/demo-data", tmp_path / "out/manifest.json"

    def files() -> set[str]:
        named = json.loads(manifest.read_text())["stacks"]["demo-data"]["synthesizedStackPath"]
        assert (tmp_path / "out" / named).is_file()
        return {file.name for file in stack.iterdir()}

    printed = _synth(tmp_path)
    (stack / ".terraform.lock.hcl").touch()
    kept = {".terraform.lock.hcl"}
    assert files() == kept | {"cdk.tf.json"}
    assert _synth(tmp_path, "--hcl") == printed
    assert files() == kept | {"cdk.tf", "metadata.json"}
    by_option = (stack / "cdk.tf").read_text()
    _synth(tmp_path)
    assert files() == kept | {"cdk.tf.json"}
    # As `cdktf synth --hcl` asks for it; what another environment has left goes.
    other = tmp_path / "out/stacks/old-data"
    other.mkdir()
    for name in ("cdk.tf", "metadata.json"):
        (other / name).touch()
    _synth(tmp_path, SYNTH_HCL_OUTPUT="true")
    assert (stack / "cdk.tf").read_text() == by_option
    assert not other.exists()


_ENTRY = """\
import os, sys
from fairway_cli import entry, main
main.main = lambda: print(*sys.argv[1:], "SYNTH_HCL_OUTPUT" in os.environ)
entry.main()
"""


@pytest.mark.parametrize(
    ("words", "seen"), [(["plan", "demo"], "plan demo"), (["synth"], "synth --hcl")]
)
def test_what_cdktf_asks_of_synth_is_none_of_other_commands(words: list[str], seen: str) -> None:
    """They write JSON for Terraform, where Node.js with that variable would write HCL."""
    done = finished(
        [sys.executable, "-P", "-c", _ENTRY, *words],
        env={**os.environ, "SYNTH_HCL_OUTPUT": "true"},
        check=True,
    )
    assert done.stdout == f"{seen} False\n"


PROGRAM = """\
import sys
import fairway_constructs as az
from fairway_core.environment.keys import NOBODYS_KEY

app = az.App(outdir=sys.argv[1], hcl_output=len(sys.argv) > 2)
lab = az.EnvironmentStack(
    app, "lab", location="westeurope", zone=2, ssh_keys=[NOBODYS_KEY],
    tags={'q"b': 'say "x" \\\\ [1]', "number": "17"},
)
net = az.Network(lab, "net", address_space="10.40.0.0/16", private_endpoints=True)
data = az.Storage(lab, "data", containers=["datasets"], network=net)
home = az.NfsServer(lab, "home", subnet=net.subnet("storage"), path="/data")
h100 = az.Cluster(
    lab, "h100", size="Standard_ND96isr_H100_v5", nodes=2, network=net, mounts=[home]
)
data.grant_read_write(h100)
az.Targets(lab, [h100], storage=data)
app.synth()
"""


def test_cdktf_writes_hcl_of_constructs_that_plans_as_their_json(
    terraform: Terraform, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    plans = []
    for words, variables in (
        (["json"], {}),
        (["argument", "hcl"], {}),
        (["variable"], {"SYNTH_HCL_OUTPUT": "true"}),
    ):
        out = tmp_path / words[0]
        subprocess.run(
            [sys.executable, str(program), str(out), *words[1:]],
            env={**os.environ, **variables},
            cwd=tmp_path,
            check=True,
            timeout=600,
        )
        plans.append(_plan(terraform, out / "stacks/lab"))
    for plan in plans[1:]:
        assert {key: plan.get(key) for key in PLANNED} == {
            key: plans[0].get(key) for key in PLANNED
        }
    metadata = json.loads((tmp_path / "argument/stacks/lab/metadata.json").read_text())
    assert metadata["terraform"]["required_providers"]["azurerm"]["source"] == PROVIDER_SOURCE


def test_hcl_of_what_exists_and_of_pools_is_as_terraform_takes_it(tmp_path: Path) -> None:
    """Blocks in outputs, and addresses that are no text: cdktf's own HCL has neither."""
    import fairway_constructs as az

    group = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub/providers"
    app = az.App(outdir=str(tmp_path), hcl_output=True)
    lab = az.EnvironmentStack(app, "lab", location="westeurope")
    subnets = {"compute": (f"{group}/Microsoft.Network/virtualNetworks/v/subnets/s", "10.1.0.0/24")}
    net = az.Network.from_subnets(lab, "net", subnets)
    account_id = f"{group}/Microsoft.Batch/batchAccounts/batch"
    az.BatchPool(
        lab,
        "pool",
        account=az.BatchAccount.from_id(lab, "batch", account_id),
        subnet=net.subnet("compute"),
        identity_id=az.Identity(lab, "nodes").id,
        size=az.vm_size("Standard_D4s_v6"),
        image=az.image("ubuntu-hpc-2404"),
        minimum=0,
        maximum=2,
        mpi=False,
    )
    app.synth()
    text = (tmp_path / "stacks/lab/cdk.tf").read_text()
    assert "\n  precondition {\n" in text
    assert re.search(r"replace_triggered_by = \[\s*terraform_data\.", text)


def test_class_without_a_known_schema_says_what_is_a_block(tmp_path: Path) -> None:
    class Delegation(Block):
        name: str

    class Rule(ObjectValue):
        port: int
        host: str | None = None

    class Unknown(Resource):
        TYPE = "azurerm_unknown"

    app = App(outdir=str(tmp_path), hcl_output=True)
    stack = Stack(app, "lab")
    AzurermProvider(stack, features=Features())
    arguments = {"one": Delegation(name="a"), "rules": [Rule(port=1)], "tags": {"a": "b"}}
    Unknown(stack, "x", {**arguments, "two": [{"name": "b"}]})
    app.synth()
    text = (tmp_path / "stacks/lab/cdk.tf").read_text()
    assert 'one {\n    name = "a"\n  }' in text
    assert 'two {\n    name = "b"\n  }' in text
    assert 'tags = {\n    a = "b"\n  }' in text
    assert "rules = [\n    {\n      port = 1" in text


def test_app_of_cdktf_itself_has_the_arguments_of_constructs_in_its_hcl(tmp_path: Path) -> None:
    import cdktf

    import fairway_constructs as az

    lab = az.EnvironmentStack(cdktf.App(outdir=str(tmp_path)), "lab", location="westeurope")
    az.Network(lab, "net", address_space="10.60.0.0/16")
    text = lab.to_hcl_terraform()["hcl"]
    assert re.search(r'resource "azurerm_virtual_network" .*?\baddress_space = \[', text, re.DOTALL)
    assert re.search(r'provider "?azurerm"? \{.*?features', text, re.DOTALL)
