"""Generated classes in `cdk.tf.json`, and arguments that they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.constructs.bindings.validator import validate

from fairway_constructs.azurerm import PROVIDER_SOURCE, PROVIDER_VERSION
from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.azurerm.provider import AzurermProvider, Features, FeaturesStorage
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.subnet import Delegation, DelegationServiceDelegation, Subnet
from fairway_constructs.cdk import App, Lifecycle, Stack, Timeouts
from fairway_constructs.terraform_data import TerraformData
from fairway_core.findings import UserError


@pytest.fixture
def app(tmp_path: Path) -> App:
    """Returns an app that writes into the test's folder."""
    return App(outdir=str(tmp_path))


@pytest.fixture
def synthesize(app: App) -> Callable[[Stack], dict[str, Any]]:
    """Synthesizes the app and returns a stack's document."""

    def synthesize(stack: Stack) -> dict[str, Any]:
        app.synth()
        file = Path(app.outdir, "stacks", stack.node.id, "cdk.tf.json")
        document: dict[str, Any] = json.loads(file.read_text())
        return document

    return synthesize


def _stack(app: App, name: str) -> Stack:
    """Returns a stack with a provider, without which cdktf does not synthesize."""
    stack = Stack(app, name)
    AzurermProvider(stack)
    return stack


def _probe(module: ModuleType, stack: Stack, id_: str = "probe", **more: Any) -> Any:
    required = {"name": "p", "scope_": "/s", "disk": module.Disk(size_gb=1)}
    listener = [module.Listener(port=80)]
    return module.Probe(stack, id_, **{**required, "listener": listener, **more})


def test_synthesis_writes_every_kind_of_argument(
    probe: ModuleType, app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    stack = _stack(app, "one")
    _probe(
        probe,
        stack,
        enabled=False,
        from_="here",
        labels={"a_b": "c"},
        node_="n",
        ports=[1, 2],
        registries=[probe.Registries(server="s")],
        secret_wo="w",
        size=1.5,
        zones=("1", "2"),
        disk=probe.Disk(
            size_gb=8, import_="no", encryption=probe.DiskEncryption(key_id="${var.k}")
        ),
        empty=probe.Empty(),
        identity=probe.Identity(type="SystemAssigned"),
        listener=[probe.Listener(port=80), probe.Listener(port=443)],
        probe=[probe.ProbeBlock(path="/")],
        resource=[probe.ResourceBlock(str_="s")],
        timeouts=Timeouts(create="1h"),
    )
    synthesized = synthesize(stack)["resource"]["azurerm_probe"]["probe"]
    del synthesized["//"]
    assert synthesized == {
        "name": "p",
        "scope": "/s",
        "enabled": False,
        "from": "here",
        "labels": {"a_b": "c"},
        "node": "n",
        "ports": [1, 2],
        "registries": [{"server": "s", "user": "${null}", "ports": "${null}"}],
        "secret_wo": "w",
        "size": 1.5,
        "zones": ["1", "2"],
        "disk": {"size_gb": 8, "import": "no", "encryption": {"key_id": "${var.k}"}},
        "empty": {},
        "identity": {"type": "SystemAssigned"},
        "listener": [{"port": 80}, {"port": 443}],
        "probe": [{"path": "/"}],
        "resource": [{"str": "s"}],
        "timeouts": {"create": "1h"},
    }


def test_synthesis_omits_arguments_that_are_not_given(
    probe: ModuleType, app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    stack = _stack(app, "one")
    _probe(probe, stack)
    synthesized = synthesize(stack)["resource"]["azurerm_probe"]["probe"]
    assert synthesized.keys() == {"//", "name", "scope", "disk", "listener"}


def test_synthesis_writes_every_kind_of_reference(
    probe: ModuleType, app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    stack = _stack(app, "one")
    first = _probe(probe, stack)
    _probe(
        probe,
        stack,
        "second",
        name=f"{first.name}-x",
        scope_=first.scope_,
        from_=first.reference("identity[0].principal_id"),
        node_=first.id,
        enabled=first.enabled,
        size=first.size,
        ports=first.ports,
        labels=first.labels,
        zones=first.addresses,
        registries=first.records,
    )
    synthesized = synthesize(stack)["resource"]["azurerm_probe"]["second"]
    expected = {
        "name": "${azurerm_probe.probe.name}-x",
        "scope": "${azurerm_probe.probe.scope}",
        "from": "${azurerm_probe.probe.identity[0].principal_id}",
        "node": "${azurerm_probe.probe.id}",
        "enabled": "${azurerm_probe.probe.enabled}",
        "size": "${azurerm_probe.probe.size}",
        "ports": "${azurerm_probe.probe.ports}",
        "labels": "${azurerm_probe.probe.labels}",
        "zones": "${azurerm_probe.probe.addresses}",
        "registries": "${azurerm_probe.probe.records}",
    }
    assert {name: synthesized[name] for name in expected} == expected


def test_synthesis_of_data_source_accepts_required_id(
    data_probe: ModuleType, app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    stack = _stack(app, "one")
    found = data_probe.DataProbe(stack, "found", id_="/x", timeouts=Timeouts(read="1m"))
    ResourceGroup(stack, "group", name=found.reference("plan[0].name"), location=found.id)
    document = synthesize(stack)
    written = document["data"]["azurerm_probe"]["found"]
    assert (written["id"], written["timeouts"]) == ("/x", {"read": "1m"})
    group = document["resource"]["azurerm_resource_group"]["group"]
    assert group["name"] == "${data.azurerm_probe.found.plan[0].name}"
    assert group["location"] == "${data.azurerm_probe.found.id}"


def test_synthesis_writes_meta_arguments(
    app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    stack = Stack(app, "one")
    AzurermProvider(stack, features=Features(storage=FeaturesStorage(data_plane_available=False)))
    other = AzurermProvider(stack, "other", alias="other", subscription_id="0")
    layout = TerraformData(stack, "layout", input={"stripes": 8})
    ResourceGroup(
        stack,
        "group",
        name="g",
        location="westeurope",
        depends_on=[layout],
        provider=other,
        lifecycle=Lifecycle(
            prevent_destroy=True,
            create_before_destroy=True,
            ignore_changes=["tags"],
            replace_triggered_by=[layout, "terraform_data.layout.output"],
        ),
    )
    ResourceGroup(stack, "all", name="g", location="l", lifecycle=Lifecycle(ignore_changes="all"))
    document = synthesize(stack)
    assert document["provider"]["azurerm"] == [
        {"features": {"storage": {"data_plane_available": False}}},
        {"alias": "other", "features": {}, "subscription_id": "0"},
    ]
    assert document["terraform"]["required_providers"] == {
        "azurerm": {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}
    }
    groups = document["resource"]["azurerm_resource_group"]
    assert groups["group"]["depends_on"] == ["terraform_data.layout"]
    assert groups["group"]["provider"] == "azurerm.other"
    # Bare addresses: Terraform accepts no "${…}" in replace_triggered_by.
    assert groups["group"]["lifecycle"] == {
        "prevent_destroy": True,
        "create_before_destroy": True,
        "ignore_changes": ["tags"],
        "replace_triggered_by": ["terraform_data.layout", "terraform_data.layout.output"],
    }
    assert groups["all"]["lifecycle"] == {"ignore_changes": "all"}
    assert document["resource"]["terraform_data"]["layout"]["input"] == {"stripes": 8}
    assert list(validate(document)) == []


def test_synthesis_refuses_expression_in_replace_triggered_by(app: App) -> None:
    layout = TerraformData(Stack(app, "one"), "layout", input=1)
    with pytest.raises(UserError, match="takes an address"):
        Lifecycle(replace_triggered_by=[layout.reference("output")]).to_terraform()


def test_synthesis_writes_references_across_stacks(
    app: App, synthesize: Callable[[Stack], dict[str, Any]]
) -> None:
    network, compute = _stack(app, "network"), _stack(app, "compute")
    group = ResourceGroup(network, "group", name="g", location="westeurope", tags={"a": "b"})
    subnet = Subnet(
        network,
        "subnet",
        name="s",
        resource_group_name=group.name,
        virtual_network_name="v",
        address_prefixes=["10.0.0.0/24"],
        delegation=[
            Delegation(
                name="netapp",
                service_delegation=DelegationServiceDelegation(name="Microsoft.Netapp/volumes"),
            )
        ],
    )
    client = DataClientConfig(compute, "client")
    role = RoleAssignment(
        compute,
        "reader",
        scope_=subnet.id,
        principal_id=client.object_id,
        role_definition_name="Reader",
    )
    ResourceGroup(compute, "copy", name=role.scope_, location="westeurope", tags=group.tags)
    document = synthesize(compute)
    shared = "data.terraform_remote_state.cross-stack-reference-input-network.outputs"
    assignment = document["resource"]["azurerm_role_assignment"]["reader"]
    assert assignment["scope"].startswith(f"${{{shared}.cross-stack-output-azurerm_subnet")
    assert assignment["principal_id"] == "${data.azurerm_client_config.client.object_id}"
    copy = document["resource"]["azurerm_resource_group"]["copy"]
    assert copy["name"] == "${azurerm_role_assignment.reader.scope}"
    assert copy["tags"].startswith(f"${{{shared}.")
    outputs = synthesize(network)["output"]
    assert "${azurerm_subnet.subnet.id}" in [output["value"] for output in outputs.values()]
    for stack in (network, compute):
        assert list(validate(synthesize(stack))) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "x"}, "missing a required argument: 'location'"),
        ({"name": "x", "location": "y", "loction": "y"}, "unexpected keyword argument 'loction'"),
        ({"name": "x", "location": "y", "id_": "z"}, "unexpected keyword argument 'id_'"),
        ({"name": "x", "location": "y", "count": 2}, "unexpected keyword argument 'count'"),
    ],
)
def test_synthesis_with_wrong_argument_raises_user_error_at_the_caller(
    app: App, arguments: dict[str, Any], said: str
) -> None:
    stack = Stack(app, "one")
    with pytest.raises(UserError, match=said) as caught:
        ResourceGroup(stack, "group", **arguments)
    (finding,) = caught.value.findings
    assert finding.location is not None
    assert finding.location.file == __file__
    assert finding.location.text.lstrip().startswith("ResourceGroup(")


def test_synthesis_refuses_scope_that_is_not_a_construct() -> None:
    with pytest.raises(UserError, match=r"scope of azurerm_resource_group is a str, and no"):
        ResourceGroup("one", "group", name="x", location="y")  # type: ignore[arg-type]
