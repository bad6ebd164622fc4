"""Constructs: nesting, several of one kind in a stack, aspects, dependencies and exports."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import finished
from tests.constructs.bindings.validator import validate

import fairway_constructs
import fairway_constructs as az
from fairway_constructs.azurerm.data_subscription import DataSubscription
from fairway_constructs.azurerm.key_vault import NetworkAcls
from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.azurerm.subnet import Subnet
from fairway_constructs.cdk.library import jsii
from fairway_constructs.scope import use_resource_group
from fairway_core.findings import UserError

Synthesize = Callable[[Callable[[az.Stack], object]], dict[str, Any]]

ONE, TWO = IPv4Network("10.40.0.0/16"), IPv4Network("10.41.0.0/16")
SUBNET = az.SubnetRef("subnet-id", ONE)


def _two_networks(scope: az.Construct) -> tuple[az.Network, az.Network]:
    """Returns two networks in groups whose environment names differ, as Azure names contain
    them."""
    found = []
    for environment, space in (("one", ONE), ("two", TWO)):
        group = az.Construct(scope, environment)
        use_resource_group(group, environment=environment, location="westeurope", zone=2)
        found.append(az.Network(group, address_space=space))
    return found[0], found[1]


@pytest.fixture
def by_path(tmp_path: Path) -> Callable[[Callable[[az.Stack], object]], dict[str, Any]]:
    """Builds in a new stack without short addresses and returns its Terraform."""

    def by_path(build: Callable[[az.Stack], object]) -> dict[str, Any]:
        app = az.App(outdir=str(tmp_path / "by-path"))
        build(az.EnvironmentStack(app, "lab", location="westeurope", zone=2))
        app.synth()
        file = tmp_path / "by-path" / "stacks" / "lab" / "cdk.tf.json"
        document: dict[str, Any] = json.loads(file.read_text())
        assert not list(validate(document))
        return document

    return by_path


def test_components_two_networks_fit_in_one_stack(by_path: Synthesize) -> None:
    found = by_path(_two_networks)["resource"]
    subnets = found["azurerm_subnet"]
    roles = ("compute", "storage", "management")
    assert {address.rpartition("_")[0] for address in subnets} == {
        f"{group}_network_{role}" for group in ("one", "two") for role in roles
    }
    (compute,) = (address for address in subnets if address.startswith("two_network_compute_"))
    network = subnets[compute]["virtual_network_name"]
    assert network.startswith("${azurerm_virtual_network.two_network_vnet_")
    rules = found["azurerm_subnet_network_security_group_association"]
    assert f"${{azurerm_subnet.{compute}.id}}" in {one["subnet_id"] for one in rules.values()}


def test_components_in_several_groups_each_have_own_shared_resources(by_path: Synthesize) -> None:
    def lab(scope: az.Construct, environment: str) -> None:
        use_resource_group(scope, environment=environment, location="westeurope", zone=2)
        network = az.Network(scope, address_space=ONE, private_endpoints=True)
        storage = az.Storage(scope, containers=["datasets"])
        for name in ("data", "more"):
            az.NetApp(scope, name, path="/data", tib=4, subnet=SUBNET, clients=[SUBNET.range])
        assert network.endpoints
        network.endpoints.connect(scope, "storage", service="blob", resource_id=storage.id)

    def build(stack: az.Stack) -> None:
        lab(az.Construct(stack, "one"), "one")
        lab(az.Construct(az.Construct(stack, "outer"), "two"), "two")

    found = by_path(build)["resource"]
    for type_ in (
        "azurerm_virtual_network",
        "azurerm_private_endpoint",
        "azurerm_private_dns_zone",
        "azurerm_netapp_account",
    ):
        assert sorted(name.split("_")[0] for name in found[type_]) == ["one", "outer"]
    groups = {one["resource_group_name"] for one in found["azurerm_netapp_volume"].values()}
    assert {each.partition("_group_")[0] for each in groups} == {
        "${azurerm_resource_group.one",
        "${azurerm_resource_group.outer_two",
    }


def test_components_without_resource_group_are_refused_with_hint() -> None:
    with pytest.raises(UserError, match="lab/network has no resource group to go to") as caught:
        az.Network(az.Stack(az.App(), "lab"), address_space=ONE)
    assert "make the stack an `EnvironmentStack`" in caught.value.findings[0].hint


def test_components_short_addresses_equal_ids_at_any_depth(synthesize: Synthesize) -> None:
    def build(stack: az.Stack) -> None:
        az.Network(az.Construct(stack, "lab"), address_space=ONE)
        az.Identity(stack, "compute")

    found = synthesize(build)["resource"]
    assert "compute" in found["azurerm_subnet"]
    assert set(found["azurerm_user_assigned_identity"]) == {"compute"}
    path = found["azurerm_virtual_network"]["vnet"]["//"]["metadata"]["path"]
    assert path == "lab-test/lab/network/vnet"


def test_components_with_duplicate_address_are_refused(
    stack: az.Stack, azure: az.AzureScope
) -> None:
    az.Network(stack, address_space=ONE)
    ResourceGroup(stack, "vnet", name="other", location=azure.location)
    finding = refused(
        lambda: Subnet(
            stack,
            "compute",
            name="other",
            resource_group_name=azure.resource_group,
            virtual_network_name="other",
            address_prefixes=["10.0.0.0/24"],
        )
    )
    assert finding.message == (
        "two resources have the address azurerm_subnet.compute: network/compute and compute"
    )


def test_components_with_duplicate_id_are_refused_with_path_and_hint(stack: az.Stack) -> None:
    """jsii's own error would name neither the path nor a remedy."""
    network = az.Network(stack, address_space=ONE)
    finding = refused(lambda: az.Network(stack, address_space=TWO))
    assert finding.message == "there is a `network` in lab-test already"
    assert finding.hint == "give one of the two another id or name"
    with pytest.raises(UserError, match="there is a `nat` in lab-test/network/egress already"):
        DataSubscription(network.node.find_child("egress"), "nat")


def test_components_peerings_of_two_networks_may_share_a_name(by_path: Synthesize) -> None:
    remote = (
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
        "/Microsoft.Network/virtualNetworks/hub"
    )

    def build(stack: az.Stack) -> None:
        for network in _two_networks(stack):
            az.Peering(network, "hub", network=network, remote_id=remote)

    found = by_path(build)
    aliases = [one["alias"] for one in found["provider"]["azurerm"] if "alias" in one]
    assert aliases == ["one-network-peering-hub", "two-network-peering-hub"]
    used = {
        one.get("provider") for one in found["resource"]["azurerm_virtual_network_peering"].values()
    }
    assert used == {None, *(f"azurerm.{alias}" for alias in aliases)}


def test_aspect_visits_constructs_and_their_resources(synthesize: Synthesize) -> None:
    seen = []

    class CostCentre(az.Aspect):
        def visit(self, node: Any) -> None:
            seen.append(node)
            assert hasattr(node, "tags_input") is getattr(node, "takes_tags", False)
            if isinstance(node, az.Resource) and node.TYPE == "azurerm_virtual_network":
                node.tags = {**node.tags_input, "cost-centre": "4711"}

    def build(stack: az.Stack) -> None:
        az.Tags.of(stack).add("team", "vision")
        az.Network(stack, address_space=ONE)
        az.Aspects.of(stack).add(CostCentre())

    found = synthesize(build)["resource"]
    tags = found["azurerm_virtual_network"]["vnet"]["tags"]
    assert (tags["cost-centre"], tags["owner"]) == ("4711", "me")
    assert [type(each) for each in seen if isinstance(each, az.Component)] == [
        az.Network,
        az.NatEgress,
    ]
    tagged = {
        type_: one["tags"].get("team")
        for type_, instances in found.items()
        for one in instances.values()
        if "tags" in one
    }
    assert set(tagged) > {"azurerm_virtual_network", "azurerm_nat_gateway", "azurerm_public_ip"}
    assert set(tagged.values()) == {"vision"}
    assert "tags" not in found["azurerm_subnet"]["compute"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(UserError.of("far", "far away"), UserError), (AssertionError(), RuntimeError)],
)
def test_aspect_error_ends_the_synthesis(
    synthesize: Synthesize, error: Exception, raised: type[Exception]
) -> None:
    class Plain:
        def visit(self, node: Any) -> None:
            if isinstance(node, az.Stack):
                raise error

    class Refusal(Plain, az.Aspect):
        def visit(self, node: Any) -> None:
            super().visit(node)

    class OfCdktf(Plain):
        pass

    for aspect in (Refusal(), Plain(), jsii.implements(az.IAspect)(OfCdktf)()):
        with pytest.raises(raised, match=r"far away|AssertionError"):
            synthesize(lambda stack, aspect=aspect: az.Aspects.of(stack).add(aspect))  # type: ignore[misc]


def test_component_attribute_assignment_is_rendered_or_refused(synthesize: Synthesize) -> None:
    def build(stack: az.Stack) -> None:
        group = ResourceGroup(stack, "group", name="a", location="westeurope", tags={"a": "b"})
        group.tags = {"c": "d"}
        group.name = "other"
        group.managed_by = None
        vault = az.Vault(stack).vault
        vault.network_acls = NetworkAcls(default_action="Allow", bypass="None")
        with pytest.raises(UserError, match="`id` of azurerm_resource_group is Azure's to say"):
            group.id = "/subscriptions/…"

    found = synthesize(build)["resource"]
    group = found["azurerm_resource_group"]["group"]
    assert (group["tags"], group["name"]) == ({"c": "d"}, "other")
    assert found["azurerm_key_vault"]["vault"]["network_acls"]["default_action"] == "Allow"


def test_provider_attribute_assignment_is_rendered_or_refused(synthesize: Synthesize) -> None:
    own = "22222222-2222-2222-2222-222222222222"

    def build(stack: az.Stack) -> None:
        hub: Any = AzurermProvider(stack, "hub", alias="hub", use_cli=True)
        hub.subscription_id = own
        hub.use_cli = None
        with pytest.raises(UserError, match="the provider azurerm has no argument `tenantid`"):
            hub.tenantid = own
        with pytest.raises(AttributeError):
            hub.alias = "other"

    _, made = synthesize(build)["provider"]["azurerm"]
    assert made == {"alias": "hub", "features": {}, "subscription_id": own}


def test_component_dependency_waits_for_all_resources_of_a_construct(
    synthesize: Synthesize,
) -> None:
    """A single resource waits too, as do resources in a plain construct of a program."""

    def build(stack: az.Stack) -> None:
        network = az.Network(stack, address_space=ONE)
        az.Vault(stack).node.add_dependency(network)
        own = az.Construct(stack, "own-things")
        own.node.add_dependency(DataSubscription(stack, "own"))
        storage = az.Storage(own, containers=["datasets"])
        storage.containers["datasets"].node.add_dependency(network.virtual_network)

    found = synthesize(build)["resource"]
    waits = set(found["azurerm_key_vault"]["vault"]["depends_on"])
    # Nested resources too: the NAT gateway belongs to the network's egress.
    assert {"azurerm_subnet.compute", "azurerm_nat_gateway.nat"} <= waits
    assert not any("key_vault" in address for address in waits)
    assert "depends_on" not in found["azurerm_subnet"]["compute"]
    subscription = "data.azurerm_subscription.own"
    assert found["azurerm_storage_account"]["storage"]["depends_on"] == [subscription]
    container = found["azurerm_storage_container"]["container-datasets"]["depends_on"]
    assert container == [subscription, "azurerm_virtual_network.vnet"]


def test_component_dependency_on_another_stack_is_refused() -> None:
    app = az.App()
    one, two = (az.EnvironmentStack(app, each, location="westeurope") for each in ("one", "two"))
    az.Vault(two).node.add_dependency(az.Network(one, address_space=ONE))
    with pytest.raises(UserError, match=r"two cannot wait for azurerm_.* of another stack"):
        app.synth()


def own_classes() -> Iterator[type]:
    """Yields classes of our modules, except generated ones, that are created in a scope."""
    for found in pkgutil.walk_packages(fairway_constructs.__path__, "fairway_constructs."):
        if found.name.split(".")[1] in ("azurerm", "bindings", "cdk", "scope", "terraform_data"):
            continue
        for value in vars(importlib.import_module(found.name)).values():
            own = inspect.isclass(value) and value.__module__ == found.name
            # In a dataclass, `scope` is a field: the scope of a role assignment.
            made = own and "scope" in inspect.signature(value.__init__).parameters
            made = made and not issubclass(value, az.Stack)
            if made and not is_dataclass(value) and not value.__name__.startswith("_"):
                yield value


def test_components_are_all_constructs_and_exported() -> None:
    found = list(own_classes())
    assert len(found) > 20
    for each in found:
        assert issubclass(each, az.Component), each
        assert getattr(fairway_constructs, each.__name__) is each


def _types_of_arguments(exported: Callable[..., object]) -> Iterator[str]:
    """Yields the names of our own types that an exported class or function accepts."""
    module = importlib.import_module(exported.__module__)
    tree = ast.parse(inspect.getsource(module))
    origins = {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    made = exported.__init__ if inspect.isclass(exported) else exported
    for each in inspect.signature(made).parameters.values():
        for name in re.findall(r"\w+", str(each.annotation)):
            is_made_here = any(isinstance(n, ast.ClassDef) and n.name == name for n in tree.body)
            origin = module.__name__ if is_made_here else origins.get(name, "")
            is_ours = origin.startswith(("fairway_constructs.", "fairway_core."))
            is_ours = is_ours and not origin.startswith("fairway_constructs.azurerm.")
            if is_ours and inspect.isclass(getattr(importlib.import_module(origin), name)):
                yield name


@pytest.mark.parametrize("name", ["Resource", "DataSource"])
def test_reference_lists_members_of_a_private_base(repository: Path, name: str) -> None:
    page = (repository / "docs/constructs.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert re.findall(r"^- `(\w+)", section, re.M) == [
        *("takes_tags", "tags_input", "reference", "set_argument", "given")
    ]


def test_components_argument_types_are_exported() -> None:
    ours = [getattr(fairway_constructs, name) for name in fairway_constructs.__all__]
    found = {
        name
        for each in ours
        if re.match(r"fairway_constructs\.(?!azurerm\.)", each.__module__)
        for name in _types_of_arguments(each)
    }
    assert {"SubnetRef", "MachineProxy", "Disks", "Spot", "Naming"} <= found
    # Types of cdktf: any construct, and the provider of any resource.
    cdktfs = {"ITerraformDependable", "TerraformProvider"}
    assert found - set(fairway_constructs.__all__) == cdktfs


def test_components_are_all_named_in_the_documentation(repository: Path) -> None:
    text = (repository / "docs/howto/program-with-constructs.md").read_text(encoding="utf-8")
    # Kinds of file systems are documented on their comparison page and in the reference.
    named = (each for each in own_classes() if az.FileSystem not in each.__bases__)
    assert [each.__name__ for each in named if f"`{each.__name__}`" not in text] == []


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/python.md",
        "docs/constructs.md",
        "docs/howto/program-with-constructs.md",
        "docs/howto/use-any-resource.md",
    ],
)
def test_documentation_programs_import_one_package(repository: Path, page: str) -> None:
    text = (repository / page).read_text(encoding="utf-8")
    found = set(re.findall(r"^(?:from|import) (fairway_[\w.]+)", text, re.M))
    assert {each for each in found if not each.startswith("fairway_constructs.azurerm.")} <= {
        "fairway_constructs",
        "fairway_hpc",
    }


@pytest.mark.parametrize("name", fairway_constructs.__all__)
def test_reference_lists_each_argument_with_its_default(repository: Path, name: str) -> None:
    exported = getattr(fairway_constructs, name)
    page = (repository / "docs/constructs.md").read_text(encoding="utf-8")
    if re.match(r"(cdktf|constructs)\b", exported.__module__):  # cdktf's own
        assert f"\n| `{name}` | " in page.partition("<!-- made by")[0]
        return
    if name == "App":
        return  # its arguments are cdktf's
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert inspect.cleandoc(exported.__doc__).splitlines()[0] in section
    made = exported.__init__ if inspect.isclass(exported) else exported
    if f"{name}." not in made.__qualname__ and inspect.isclass(exported):
        return  # documented in the section of its base
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (\S.*) \|$", section, re.M))
    known = {each.name: each.default for each in inspect.signature(exported).parameters.values()}
    assert rows.keys() == known.keys() - {"scope"}
    for argument, shown in rows.items():
        default = known[argument]
        if default is inspect.Parameter.empty:
            assert shown == "required"
        elif isinstance(default, str | int | float | tuple | None):
            assert shown == f"`{default!r}`"
        else:
            assert shown.endswith("()`"), "made anew for each"


def test_components_exported_names_all_exist() -> None:
    for name in fairway_constructs.__all__:
        exported = getattr(fairway_constructs, name)
        assert exported is not None
        if inspect.isclass(exported) and issubclass(exported, az.Component):
            own = list(inspect.signature(exported.__init__).parameters)[1:]
            assert list(inspect.signature(exported).parameters) == own
    assert dir(fairway_constructs) == sorted(fairway_constructs.__all__)
    # The names that type checkers see are equal.
    named = re.findall(r"\b(\w+) as \1\b", inspect.getsource(fairway_constructs))
    assert named == fairway_constructs.__all__


def test_components_package_import_needs_neither_cdktf_nor_generated_classes() -> None:
    program = """\
import sys
sys.modules["fairway_constructs.azurerm"] = sys.modules["cdktf"] = sys.modules["jsii"] = None
import fairway_constructs, fairway_constructs.bindings.generate
try:
    fairway_constructs.Network
except ImportError:
    print("only then")
"""
    done = finished([sys.executable, "-c", program])
    assert (done.stdout, done.returncode) == ("only then\n", 0), done.stderr
