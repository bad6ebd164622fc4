"""Our constructs nest, several of one kind fit in a stack, aspects and dependencies work."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from dataclasses import is_dataclass, replace
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import jsii
import pytest

import fairway_constructs
from fairway_constructs.azurerm.data_subscription import DataSubscription
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.azurerm.subnet import Subnet
from fairway_constructs.cdk import App, Aspects, Component, Construct, IAspect, Resource, Stack
from fairway_constructs.egress import NatEgress
from fairway_constructs.gpu_cluster import GpuCluster
from fairway_constructs.identity import Identity
from fairway_constructs.lustre import Lustre
from fairway_constructs.network import Network
from fairway_constructs.network_access import PlacedSubnet
from fairway_constructs.nodes import NodeSpec
from fairway_constructs.peering import Peering
from fairway_constructs.placement import place_in_group
from fairway_constructs.storage import Storage
from fairway_core.catalog import image, vm_size
from fairway_core.environment import Lustre as LustreSpec
from fairway_core.environment import Peering as PeeringSpec
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fairway_constructs.placement import Placement

    Synthesize = Callable[[Callable[[Stack], object]], dict[str, Any]]

ONE, TWO = IPv4Network("10.40.0.0/16"), IPv4Network("10.41.0.0/16")


def _two_networks(stack: Stack, place: Placement) -> tuple[Network, Network]:
    other = replace(place, environment="two")
    return (
        Network(stack, place=place, address_space=ONE),
        Network(stack, "second", place=other, address_space=TWO),
    )


def test_two_networks_fit_in_a_stack(synthesize: Synthesize, place: Placement) -> None:
    found = synthesize(lambda stack: _two_networks(stack, place))["resource"]
    subnets = found["azurerm_subnet"]
    short = {"compute", "storage", "management"}
    longer = set(subnets) - short
    assert len(subnets) == 6
    assert {address.rpartition("_")[0] for address in longer} == {f"second_{one}" for one in short}
    (compute,) = (address for address in longer if address.startswith("second_compute_"))
    assert subnets["compute"]["virtual_network_name"] == "${azurerm_virtual_network.vnet.name}"
    (network,) = set(found["azurerm_virtual_network"]) - {"vnet"}
    assert subnets[compute]["virtual_network_name"] == (
        f"${{azurerm_virtual_network.{network}.name}}"
    )
    rules = found["azurerm_subnet_network_security_group_association"]
    assert f"${{azurerm_subnet.{compute}.id}}" in {one["subnet_id"] for one in rules.values()}


def test_a_further_network_changes_no_address_of_the_first(
    synthesize: Synthesize, place: Placement
) -> None:
    alone = synthesize(lambda stack: Network(stack, place=place, address_space=ONE))["resource"]
    beside = synthesize(lambda stack: _two_networks(stack, place))["resource"]
    for type_, instances in alone.items():
        for name, body in instances.items():
            expected = {key: value for key, value in body.items() if key != "//"}
            found = {key: value for key, value in beside[type_][name].items() if key != "//"}
            assert found == expected, f"{type_}.{name}"


def test_what_the_first_lacks_gets_no_short_address_in_the_second(
    synthesize: Synthesize, place: Placement
) -> None:
    """It would move to the first as soon as that has such a resource too."""

    def build(stack: Stack) -> None:
        Network(stack, place=place, address_space=ONE, egress="none")
        Network(stack, "second", place=place, address_space=TWO, bastion=True)

    found = synthesize(build)["resource"]
    for type_ in ("azurerm_nat_gateway", "azurerm_bastion_host", "azurerm_public_ip"):
        assert all(name.startswith("second_") for name in found[type_])


def test_short_addresses_do_not_depend_on_the_depth(
    synthesize: Synthesize, place: Placement
) -> None:
    class Lab(Construct):
        def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
            super().__init__(scope, id)
            self.network = Network(self, place=place, address_space=ONE)

    found = synthesize(lambda stack: Lab(stack, "lab"))
    assert set(found["resource"]["azurerm_virtual_network"]) == {"vnet"}
    path = found["resource"]["azurerm_virtual_network"]["vnet"]["//"]["metadata"]["path"]
    assert path == "lab-test/lab/network/vnet"


def test_what_stands_in_a_stack_may_stand_in_groups_too(synthesize: Synthesize) -> None:
    def lab(scope: Construct, environment: str) -> None:
        place = place_in_group(
            scope, environment=environment, role="lab", location="westeurope", zone=2
        )
        network = Network(scope, place=place, address_space=ONE, private_endpoints=True)
        storage = Storage(scope, place=place, containers=["datasets"])
        assert network.endpoints
        network.endpoints.connect(
            scope, "storage", place=place, service="blob", resource_id=storage.id
        )

    def build(stack: Stack) -> None:
        lab(stack, "one")
        lab(Construct(stack, "group-two"), "two")
        lab(Construct(Construct(stack, "outer"), "group-three"), "three")

    found = synthesize(build)["resource"]
    for type_, short in (
        ("azurerm_resource_group", "group"),
        ("azurerm_virtual_network", "vnet"),
        ("azurerm_private_endpoint", "storage-endpoint"),
        ("azurerm_private_dns_zone", "privatelink-blob-core-windows-net"),
    ):
        begins = sorted(name.split("_")[0] for name in found[type_])
        assert begins == sorted([short, "group-two", "outer"])


def test_an_identity_may_be_called_as_a_subnet(synthesize: Synthesize, place: Placement) -> None:
    def build(stack: Stack) -> None:
        Network(stack, place=place, address_space=ONE)
        Identity(stack, "compute", place=place, grants={})

    found = synthesize(build)["resource"]
    assert "compute" in found["azurerm_subnet"]
    assert set(found["azurerm_user_assigned_identity"]) == {"compute"}


def test_two_stacks_of_an_app_each_have_short_addresses(place: Placement) -> None:
    app = App()
    for name in ("one", "two"):
        network = Network(Stack(app, name), place=place, address_space=ONE)
        assert network.virtual_network.terraform_address == "azurerm_virtual_network.vnet"


def test_two_resources_of_one_address_are_refused_at_once(place: Placement) -> None:
    stack = Stack(App(), "lab-test")
    Network(stack, place=place, address_space=ONE)
    ResourceGroup(stack, "vnet", name="other", location=place.location)
    with pytest.raises(UserError) as caught:
        Subnet(
            stack,
            "compute",
            name="other",
            resource_group_name=place.resource_group,
            virtual_network_name="other",
            address_prefixes=["10.0.0.0/24"],
        )
    (finding,) = caught.value.findings
    assert finding.message == (
        "two resources have the address azurerm_subnet.compute: network/compute and compute"
    )


def test_two_constructs_of_one_id_are_told_apart(place: Placement) -> None:
    """Not by an error of jsii's, which names neither the path nor what to do."""
    stack = Stack(App(), "lab-test")
    network = Network(stack, place=place, address_space=ONE)
    with pytest.raises(UserError) as caught:
        Network(stack, place=place, address_space=TWO)
    (finding,) = caught.value.findings
    assert finding.message == "there is a `network` in lab-test already"
    assert finding.hint == "give one of the two another id or name"
    with pytest.raises(UserError, match="there is a `nat` in lab-test/network/egress already"):
        DataSubscription(network.node.find_child("egress"), "nat")
    # What cdktf itself has to say stays.
    with pytest.raises(RuntimeError, match="Only root constructs may have an empty ID"):
        Network(stack, "", place=place, address_space=TWO)


def test_a_stack_may_have_two_resource_groups(synthesize: Synthesize) -> None:
    def build(stack: Stack) -> None:
        for id, environment in (("group", "one"), ("other-group", "two")):  # noqa: A001
            place = place_in_group(
                stack, id, environment=environment, role="lab", location="westeurope"
            )
            Storage(stack, f"{id}-storage", place=place, containers=["datasets"])

    found = synthesize(build)["resource"]
    assert set(found["azurerm_resource_group"]) == {"group", "other-group"}
    used = {one["resource_group_name"] for one in found["azurerm_storage_account"].values()}
    assert len(used) == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s, p: Network(s, place=p, address_space="10.0.0.0/24"), "cannot be cut into"),
        (
            lambda s, p: Network(s, place=p, address_space=ONE, egress="natt"),
            "`natt` is no way out of a network",
        ),
        (
            lambda s, p: Network(s, place=p, address_space=ONE, filesystems=["lustr"]),
            "did you mean `lustre`",
        ),
        (lambda s, p: Storage(s, place=p, containers=["Data_1"]), "not a valid name for a storage"),
        (
            lambda s, p: Storage(s, place=p, containers="datasets"),
            "name `d` of a storage container",
        ),
        (
            lambda s, p: Storage(s, place=p, containers=["code"], expire_days={"cod": 3}),
            "unknown container `cod`\n  did you mean `code`",
        ),
        (
            lambda s, p: Lustre(
                s,
                "fast",
                place=replace(p, zone=None),
                spec=LustreSpec(kind="lustre", tib=48, path="/lustre"),
                subnet_id="subnet-id",
            ),
            "`fast` needs a zone, and its placement names none",
        ),
        (lambda s, p: _cluster(s, p, ssh_keys="ssh-ed25519 AAAA"), "not a list of OpenSSH public"),
        (lambda s, p: _cluster(s, p, ssh_keys=["id_ed25519.pub"]), "not a list of OpenSSH public"),
    ],
)
def test_a_mistake_is_named_where_it_is_made(
    build: Callable[[Stack, Placement], object], message: str, place: Placement
) -> None:
    with pytest.raises(UserError, match=message):
        build(Stack(App(), "lab-test"), place)


def test_a_name_of_the_catalogue_is_not_its_row(place: Placement) -> None:
    stack = Stack(App(), "lab-test")
    with pytest.raises(TypeError, match=r'`size` takes vm_size\("Standard_…"\) of fairway_core'):
        _cluster(stack, place, size="Standard_ND96isr_H100_v5")
    with pytest.raises(TypeError, match=r'`image` takes image\("ubuntu-hpc-2404"\) of fairway'):
        _cluster(stack, place, image="ubuntu-hpc-2404")


def _cluster(stack: Stack, place: Placement, **wrong: Any) -> GpuCluster:
    settings = {
        "size": vm_size("Standard_ND96isr_H100_v5"),
        "image": image("ubuntu-hpc-2404"),
        "subnet": PlacedSubnet("subnet-id", ONE),
        "identity_id": "identity-id",
        "ssh_keys": ["ssh-ed25519 AAAA me"],
    }
    return GpuCluster(stack, "pair", place=place, spec=NodeSpec(**{**settings, **wrong}), nodes=2)


def test_peerings_of_two_networks_may_have_one_name(
    synthesize: Synthesize, place: Placement
) -> None:
    spec = PeeringSpec(
        network="/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
        "/Microsoft.Network/virtualNetworks/hub"
    )

    def build(stack: Stack) -> None:
        for network in _two_networks(stack, place):
            Peering(network, "hub", place=place, virtual_network=network.virtual_network, spec=spec)

    found = synthesize(build)
    aliases = [one["alias"] for one in found["provider"]["azurerm"] if "alias" in one]
    assert aliases == ["hub", "second-peering-hub"]
    used = {
        one.get("provider") for one in found["resource"]["azurerm_virtual_network_peering"].values()
    }
    assert used == {None, "azurerm.hub", "azurerm.second-peering-hub"}


def test_an_aspect_sees_constructs_and_their_resources(
    synthesize: Synthesize, place: Placement
) -> None:
    seen = []

    @jsii.implements(IAspect)
    class CostCentre:
        def visit(self, node: Any) -> None:
            seen.append(node)
            if isinstance(node, Resource) and node.TYPE == "azurerm_virtual_network":
                node.add_override("tags.cost-centre", "4711")

    def build(stack: Stack) -> None:
        Network(stack, place=place, address_space=ONE)
        Aspects.of(stack).add(CostCentre())

    found = synthesize(build)["resource"]
    assert found["azurerm_virtual_network"]["vnet"]["tags"]["cost-centre"] == "4711"
    assert found["azurerm_virtual_network"]["vnet"]["tags"]["owner"] == "me"
    assert [type(each) for each in seen if isinstance(each, Component)] == [Network, NatEgress]


def _storage(stack: Stack, place: Placement) -> Storage:
    return Storage(stack, place=place, containers=["datasets"])


def test_a_construct_waits_for_all_of_another(synthesize: Synthesize, place: Placement) -> None:
    def build(stack: Stack) -> None:
        network = Network(stack, place=place, address_space=ONE)
        _storage(stack, place).node.add_dependency(network)

    found = synthesize(build)["resource"]
    account = set(found["azurerm_storage_account"]["storage"]["depends_on"])
    assert account == set(found["azurerm_storage_container"]["container-datasets"]["depends_on"])
    # Nested ones too: the gateway is the network's way out.
    assert {"azurerm_subnet.compute", "azurerm_nat_gateway.nat"} <= account
    assert not any("storage_account" in address for address in account)
    assert "depends_on" not in found["azurerm_subnet"]["compute"]


def test_a_single_resource_and_a_construct_of_others_wait_too(
    synthesize: Synthesize, place: Placement
) -> None:
    def build(stack: Stack) -> None:
        network = Network(stack, place=place, address_space=ONE)
        subscription = DataSubscription(stack, "own")
        own = Construct(stack, "own-things")
        own.node.add_dependency(subscription)
        storage = Storage(own, place=place, containers=["datasets"])
        storage.containers["datasets"].node.add_dependency(network.virtual_network)

    found = synthesize(build)["resource"]
    subscription = "data.azurerm_subscription.own"
    assert found["azurerm_storage_account"]["storage"]["depends_on"] == [subscription]
    container = found["azurerm_storage_container"]["container-datasets"]["depends_on"]
    assert container == [subscription, "azurerm_virtual_network.vnet"]


def test_a_dependency_on_another_stack_is_refused(place: Placement) -> None:
    app = App()
    network = Network(Stack(app, "one"), place=place, address_space=ONE)
    storage = _storage(Stack(app, "two"), place)
    storage.node.add_dependency(network)
    with pytest.raises(UserError, match=r"two cannot wait for azurerm_.* of another stack"):
        app.synth()


def _own_classes() -> Iterator[type]:
    """The classes of our modules, but for the generated ones, that are made in a scope."""
    for found in pkgutil.walk_packages(fairway_constructs.__path__, "fairway_constructs."):
        if found.name.split(".")[1] in ("azurerm", "bindings", "cdk", "terraform_data"):
            continue
        for value in vars(importlib.import_module(found.name)).values():
            own = inspect.isclass(value) and value.__module__ == found.name
            # Of a dataclass it is a field: the scope of a role assignment.
            made = own and "scope" in inspect.signature(value.__init__).parameters
            if made and not is_dataclass(value) and not value.__name__.startswith("_"):
                yield value


def test_each_class_is_a_construct_and_exported() -> None:
    found = list(_own_classes())
    assert len(found) > 20
    for each in found:
        assert issubclass(each, Component), each
        assert getattr(fairway_constructs, each.__name__) is each


def _types_of_arguments(exported: Callable[..., object]) -> Iterator[str]:
    """The names of our own types that an exported class or function takes."""
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
            is_ours = origin.startswith("fairway_constructs.")
            if is_ours and not origin.startswith("fairway_constructs.azurerm."):
                yield name


def test_what_a_construct_takes_is_exported_too() -> None:
    ours = [getattr(fairway_constructs, name) for name in fairway_constructs.__all__]
    found = {
        name
        for each in ours
        if re.match(r"fairway_constructs\.(?!azurerm\.)", each.__module__)
        for name in _types_of_arguments(each)
    }
    assert {"PlacedSubnet", "NodeSpec", "Placement"} <= found
    # What cdktf knows by this name is any construct.
    assert found - set(fairway_constructs.__all__) == {"ITerraformDependable"}


def test_each_construct_is_in_the_documents(repository: Path) -> None:
    text = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    assert [each.__name__ for each in _own_classes() if f"`{each.__name__}`" not in text] == []


def test_each_exported_name_is_there() -> None:
    for name in fairway_constructs.__all__:
        assert getattr(fairway_constructs, name) is not None
    assert dir(fairway_constructs) == sorted(fairway_constructs.__all__)


def test_to_import_the_package_needs_neither_cdktf_nor_the_generated_classes() -> None:
    program = """\
import sys
sys.modules["fairway_constructs.azurerm"] = sys.modules["cdktf"] = sys.modules["jsii"] = None
import fairway_constructs, fairway_constructs.bindings.generate
try:
    fairway_constructs.Network
except ImportError:
    print("only then")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("only then\n", 0), done.stderr
