"""HCL of environments: Terraform accepts it as formatted, and plans it like the JSON.

Terraform is the real program. A stand-in with the provider's schema replaces the provider, which is
not available everywhere; it plans exactly what the configuration says.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import finished
from tests.stacks.documents import ENVIRONMENTS, FILES, Written

from fairway_constructs.azurerm import PROVIDER_SOURCE
from fairway_constructs.azurerm.provider import AzurermProvider, Features
from fairway_constructs.bindings.blocks import Block, ObjectValue
from fairway_constructs.bindings.facts import KEPT
from fairway_constructs.cdk import App, Resource, Stack
from fairway_constructs.hcl import to_hcl
from fairway_stacks.plan.promised import outputs_of, with_previewed_outputs
from fairway_stacks.plan.stacks import StackFolder

Terraform = Callable[..., str]

HERE = Path(__file__).parent
PLANNED = ("planned_values", "resource_changes", "output_changes", "prior_state")

pytestmark = pytest.mark.skipif(shutil.which("terraform") is None, reason="needs terraform")


@pytest.fixture(scope="module")
def terraform() -> Iterator[Terraform]:
    """Yields a function that runs Terraform with the provider stand-in and returns its output."""
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


def _require_valid(terraform: Terraform, folder: Path, *init: str) -> None:
    assert terraform(folder, "fmt", "-check", "-diff") == ""
    terraform(folder, "init", "-input=false", *init)
    assert json.loads(terraform(folder, "validate", "-json"))["diagnostics"] == []


def _plan(terraform: Terraform, folder: Path) -> dict[str, Any]:
    terraform(folder, "plan", "-input=false", "-refresh=false", "-out=plan")
    plan: dict[str, Any] = json.loads(terraform(folder, "show", "-json", "plan"))
    return plan


def _plans(
    terraform: Terraform, folder: Path, document: dict[str, Any], promised: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the plans of a stack from its JSON and from its HCL, with an empty state."""
    json_folder, hcl_folder = folder / "json", folder / "hcl"
    for each in (json_folder, hcl_folder):
        each.mkdir(parents=True)
    (hcl_folder / "cdk.tf").write_text(to_hcl(document))
    _require_valid(terraform, hcl_folder, "-backend=false")
    # Without a backend there is nothing to initialize.
    document = {**document, "terraform": {**document["terraform"]}}
    del document["terraform"]["backend"]
    file = json_folder / "cdk.tf.json"
    file.write_text(json.dumps(document))
    with with_previewed_outputs(StackFolder(folder.name, json_folder), promised):
        (hcl_folder / "cdk.tf").write_text(to_hcl(json.loads(file.read_text())))
        return _plan(terraform, json_folder), _plan(terraform, hcl_folder)


def _planned(plan: dict[str, Any]) -> dict[str, Any]:
    return {key: plan.get(key) for key in PLANNED}


NIGHTLY = [*ENVIRONMENTS, FILES["pods"], FILES["regional"]]
SOURCES = [FILES["own"], *(pytest.param(f, marks=pytest.mark.nightly) for f in NIGHTLY)]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_hcl_of_environment_is_valid_and_plans_like_its_json(
    file: Path, written: Written, terraform: Terraform, tmp_path: Path
) -> None:
    """The environment with every service is tested by day, the others nightly."""
    promised: dict[str, Any] = {}
    for role, document in written(file).items():
        of_json, of_hcl = _plans(terraform, tmp_path / "plans" / role, document, promised)
        assert _planned(of_hcl) == _planned(of_json)
        assert of_hcl["resource_changes"]
        stack = document["//"]["metadata"]["stackName"]
        promised[stack] = outputs_of(of_json)


# Features that no environment uses, and unusual text.
ODD: dict[str, Any] = {
    "terraform": {"required_version": ">= 1.9", "backend": {"local": {"path": "${x}.tfstate"}}},
    "variable": {
        "who": {
            "type": "map(string)",
            "default": {"a b": "1"},
            "validation": [{"condition": "${length(var.who) > 0}", "error_message": "nobody"}],
        },
        "odd": {
            "type": "any",
            "default": {"${a}": ["two\nlines", "$${b} %{c}\n\u0007"]},
            "description": "two\nlines of ${d}",
        },
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
    "check": {
        "of_two": {
            "data": {
                "terraform_remote_state": {"x": {"backend": "local", "config": {"path": "none"}}}
            },
            "assert": [{"condition": '${terraform_data.two.id != ""}', "error_message": "none"}],
        }
    },
    "output": {
        "odd": {"value": "${var.odd}"},
        "all": {
            "value": "${terraform_data.two.input}",
            "description": 'What "two"\nhas: ${e}',
            "sensitive": True,
            "depends_on": ["terraform_data.one"],
        },
        "text": {"value": '${upper("x}")} and ${jsonencode({ a = "$${b}" })}'},
    },
}


def test_hcl_of_every_terraform_feature_plans_like_its_json(
    terraform: Terraform, tmp_path: Path
) -> None:
    of_json, of_hcl = _plans(terraform, tmp_path / "odd", ODD, {})
    for key in (*PLANNED, "checks"):
        assert of_hcl.get(key) == of_json.get(key)
    (tmp_path / "odd/hcl/cdk.tf").write_text(to_hcl(ODD))
    _require_valid(terraform, tmp_path / "odd/hcl")  # with its backend
    root = of_hcl["configuration"]["root_module"]
    assert root["variables"] == of_json["configuration"]["root_module"]["variables"]
    assert root["outputs"]["all"]["description"] == ODD["output"]["all"]["description"]
    [one, three, two] = [each for each in root["resources"] if each["mode"] == "managed"]
    assert [each["type"] for each in one["provisioners"]] == ["local-exec", "local-exec"]
    assert two["depends_on"] == ["terraform_data.three"]
    assert three["name"] == "three"


def test_hcl_of_other_sections_and_dynamic_blocks_is_written() -> None:
    document = {
        "ephemeral": {"azurerm_key_vault_secret": {"s": {"name": "s"}}},
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
ephemeral "azurerm_key_vault_secret" "s" {
  name = "s"
}

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


def test_hcl_of_unknown_section_is_refused() -> None:
    assert refused(lambda: to_hcl({"resources": {}}), "`resources`").id == "no-hcl"


def test_hcl_contains_readable_cloud_init(written: Written) -> None:
    text = to_hcl(written(FILES["h100-slurm"])["compute"])
    assert "custom_data = base64encode(<<-EOT\n    #cloud-config\n" in text
    assert "base64decode" not in text


def test_hcl_contains_hashed_text_once(written: Written) -> None:
    text = to_hcl(written(FILES["h100-kubernetes"])["compute"])
    assert text.count("kind: NodeFeatureRule") == 1
    assert "md5(local.manifests-devices-source_content)" in text


def test_synth_writes_a_stack_in_either_json_or_hcl(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fairway: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
) -> None:
    stack, manifest = tmp_path / "out/stacks/demo-data", tmp_path / "out/manifest.json"
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))

    def synth(*words: str) -> str:
        assert fairway("synth", "demo", *words) == 0
        return capfd.readouterr().out

    def files() -> set[str]:
        named = json.loads(manifest.read_text())["stacks"]["demo-data"]["synthesizedStackPath"]
        assert (tmp_path / "out" / named).is_file()
        return {file.name for file in stack.iterdir()}

    printed = synth()
    (stack / ".terraform.lock.hcl").touch()
    kept = {".terraform.lock.hcl"}
    assert files() == kept | {"cdk.tf.json"}
    # Files of another environment are removed in either language.
    other = tmp_path / "out/stacks/old-data"
    other.mkdir()
    for name in ("cdk.tf", "metadata.json"):
        (other / name).touch()
    assert synth("--hcl") == printed
    assert not other.exists()
    assert files() == kept | {"cdk.tf", "metadata.json"}
    synth()
    assert files() == kept | {"cdk.tf.json"}


_ENTRY = """\
import os, sys
from fairway_cli import entry, main
main.main = lambda: print(*sys.argv[1:], "SYNTH_HCL_OUTPUT" in os.environ)
entry.main()
"""


@pytest.mark.parametrize(
    ("words", "seen"), [(["plan", "demo"], "plan demo"), (["synth"], "synth --hcl")]
)
def test_synth_hcl_variable_of_cdktf_is_hidden_from_other_commands(
    words: list[str], seen: str
) -> None:
    """Other commands write JSON for Terraform; Node.js would write HCL if it saw the variable."""
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
    ignore_checks=["azure-tags"],
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


def test_hcl_of_constructs_written_by_cdktf_plans_like_their_json(
    terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for words in (["json"], ["argument", "hcl"]):
        monkeypatch.setattr(sys, "argv", ["program.py", str(tmp_path / words[0]), *words[1:]])
        runpy.run_path(str(program))
    plans = []
    for name in ("json", "argument"):
        terraform(tmp_path / name / "stacks/lab", "init", "-input=false")
        plans.append(_planned(_plan(terraform, tmp_path / name / "stacks/lab")))
    assert plans[0] == plans[1]
    folder = tmp_path / "argument/stacks/lab"
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["terraform"]["required_providers"]["azurerm"]["source"] == PROVIDER_SOURCE
    # The variable that `cdktf synth --hcl` sets, which Node.js also reads.
    variables = {**os.environ, "SYNTH_HCL_OUTPUT": "true"}
    finished([sys.executable, program, tmp_path / "asked"], env=variables, check=True)
    by_argument, asked = (
        re.sub(r'path += ".*"', "", (tmp_path / name / "stacks/lab/cdk.tf").read_text())
        for name in ("argument", "asked")
    )
    assert by_argument == asked


def test_hcl_of_existing_resources_and_pools_is_valid(tmp_path: Path) -> None:
    """cdktf's own HCL has neither blocks in outputs nor addresses outside strings."""
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
        identity=az.Identity(lab, "nodes"),
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


def test_hcl_of_unknown_resource_distinguishes_blocks_from_objects(tmp_path: Path) -> None:
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


def test_app_writes_each_stack_in_one_language(tmp_path: Path) -> None:
    for hcl in (False, True, False):
        app = App(outdir=tmp_path, hcl_output=hcl)
        Stack(app, "lab")
        app.synth()
        written = {each.name for each in (tmp_path / "stacks/lab").iterdir()}
        assert written == ({"cdk.tf", "metadata.json"} if hcl else {"cdk.tf.json"})


def test_hcl_of_a_plain_cdktf_app_contains_arguments_of_constructs(tmp_path: Path) -> None:
    import cdktf

    import fairway_constructs as az

    lab = az.EnvironmentStack(cdktf.App(outdir=str(tmp_path)), "lab", location="westeurope")
    az.Network(lab, "net", address_space="10.60.0.0/16")
    text = lab.to_hcl_terraform()["hcl"]
    assert re.search(r'resource "azurerm_virtual_network" .*?\baddress_space = \[', text, re.DOTALL)
    assert re.search(r'provider "?azurerm"? \{.*?features', text, re.DOTALL)
